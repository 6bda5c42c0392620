// Package admin serves the people who run the pipeline: the dashboard, the HTTP API
// behind it, the metrics and the health checks, on a listener of its own.
//
//	Hot() ──────────┐                        ┌──> /v1/events ──> dashboard (one SSE stream a client)
//	Reports() ──────┼─> sampler ──> snapshot ┼──> /v1/hot, /v1/keys/{key}
//	Overrides.List ─┘   (1, once a second)   └──> [Server.Overview], for /metrics
//	Publish(changes) ───────────────────────────> /v1/events, at once
//
// What enters are small functions that say what is hot, what the limiters have
// decided, which rules hold, and one [OverrideStore]. What leaves is JSON and HTML.
// The metrics are those of package metrics; the server only answers with them.
//
// [New] builds a [Server] and starts nothing. [Server.Handler] serves,
// [Server.Run] samples and feeds the streams. Programs call
// [Config.ValidateListen] before they listen: off loopback the API is not served
// without a token.
//
// The package decides nothing about requests and never speaks to an outside
// system itself. Keys are hostile input: they are never HTML.
package admin
