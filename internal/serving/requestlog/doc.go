// Package requestlog writes down the requests that pass, for a while, so that learn can read them as a log.
//
//	handlers ──> [queue of lines] ──> one writer ──> JSONL, up to Config.MaxBytes bytes
//
// A request never waits for it: where the queue is full its line is left out and counted. A line has the time, the
// client, the method, the target as rules redact it, the status, the user agent, and whether there was a Referer; no
// other header and no body. However long a target is, a line is short.
package requestlog
