// Package httplimit holds what the HTTP servers share, so that a verdict looks
// the same from each of them: who the client of a request is behind proxies
// ([Clients]), how a request is put to the gate without ever hurting it
// ([SafeGate]), and what a refusal and its header fields are made of
// ([Answers]).
//
// It reads no body, starts nothing and keeps no state but counters. The bytes
// that leave through it are described in docs/gateways.md.
package httplimit
