// Package middleware puts a gate before a net/http handler.
//
//	request ──> client address ──> gate ──> allowed: RateLimit fields, then your handler
//	                                  └──> denied: 429, Retry-After, problem+json
//
// A request without a limit passes without an allocation. The handler
// gets the ResponseWriter of the server, so flushing, hijacking and
// sendfile work as before. The body is not read. If deciding panics, the request
// is allowed.
//
// The package knows the gate only by its one method, so that a test can replace it.
package middleware
