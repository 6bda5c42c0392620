// Package middleware puts a gate before a net/http handler.
//
//	request ──> client address ──> gate ──> allowed: RateLimit fields, then your handler
//	                                  └──> denied: 429, Retry-After, problem+json
//
// A request that no limit applied to passes without an allocation. The handler
// gets the very ResponseWriter that the server made, so flushing, hijacking and
// sendfile work as before. The body is not read. If judging panics, the request
// passes.
//
// The package knows the gate only by its one method, so that a test can put
// anything in its place.
package middleware
