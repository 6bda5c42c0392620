// Package listener takes a port and serves HTTP on it: HTTP/1.1 and HTTP/2, with
// TLS or without (h2c).
//
// Every listener of every program is one of these, so each has a bound on its
// connections, deadlines for slow headers, bodies and readers, certificates that
// are read again when their files change, and a graceful stop with an end. What a
// request means is its handler's.
package listener
