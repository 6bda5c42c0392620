// Package envoy answers Envoy's two ways to ask about a request, both gRPC, version 3:
//
//   - external authorization (envoy.service.auth.v3.Authorization): Envoy describes the whole
//     HTTP request, so that it is decided as the sidecar's other listeners decide. Prefer it.
//   - the rate limit service (envoy.service.ratelimit.v3.RateLimitService): Envoy sends the
//     descriptors that its routes are configured with. Each becomes a request, see [target].
//
// Messages are read by hand (decode.go): Envoy puts bytes that are no UTF-8 into fields that
// the schema calls strings, Go's protobuf rejects such a message before any handler sees it,
// and Envoy then lets the request pass. A client that adds %FF to its query must not choose that.
//
// A [Server] also serves gRPC health checks and reflection. It reads no file and opens no port:
// its caller gives it a listener.
package envoy
