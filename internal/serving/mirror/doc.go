// Package mirror takes copies of requests from gateways (nginx mirror, Envoy
// request mirroring) and counts them.
//
// What enters is an HTTP request that repeats another one, whose target stands
// in a header (nginx) or is its own (Envoy). What leaves is a count per rule
// that takes it. The response is 204 at once: no client waits for it, nothing is
// decided, no body is read.
package mirror
