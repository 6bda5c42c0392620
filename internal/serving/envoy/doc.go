// Package envoy answers the two kinds of calls by which Envoy asks about a request, both gRPC, version 3:
//
//   - external authorization (envoy.service.auth.v3.Authorization): Envoy describes the whole HTTP request, so that it
//     is decided as on the sidecar's other listeners. Prefer it.
//   - the rate limit service (envoy.service.ratelimit.v3.RateLimitService): Envoy sends the descriptors for which its
//     routes are configured. A descriptor without a limit of its own becomes a request, see requestOf.
//
// Messages are decoded by hand (decode.go, receive.go). Envoy puts bytes that are not UTF-8 into fields that the schema
// calls strings. Go's protobuf rejects such a message before any handler sees it, and Envoy then lets the request pass.
// A client that adds %FF to its query must not be able to choose that.
//
// A [Server] also serves gRPC health checks and reflection. It reads no file and opens no port: its caller passes it a
// listener.
package envoy
