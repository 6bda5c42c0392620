// Package notify sends events to webhooks: a key became hot or cold, a loop was found, an override changed, a store
// fails, an adaptive limit is at its floor.
//
//	Notify ──> [queue of webhook 1] ──> one sender ──> POST, up to 100 events each, at most one a second
//	       └─> [queue of webhook 2] ──> one sender ──> …
//
// Notify never waits. Each webhook has a queue and a goroutine of its own, so one that hangs does not delay the others.
// A full queue drops its oldest events; dropped events are counted and logged. A failed attempt is retried with
// exponential backoff and jitter, until RetryFor is over.
//
// Keys, clients and authors are untrusted input. They are values in each format, never markup, and characters that are
// not printable are written as code points. No error and no log line contains a secret or a URL: a URL is often the
// only secret that a webhook has.
package notify
