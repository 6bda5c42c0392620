// Package notify tells webhooks what happened: a key became hot or cold, a loop was found, somebody changed an
// override, a store fails, an adaptive limit is at its floor.
//
//	Tell ──> [queue of webhook 1] ──> one sender ──> POST, up to 100 events at a time, at most one a second
//	     └─> [queue of webhook 2] ──> one sender ──> …
//
// Tell never waits. Each webhook has a queue and a goroutine of its own, so one that hangs keeps no other from
// hearing. A queue that is full loses its oldest events; what is lost is counted and logged. An attempt that failed is
// made again, later and later and at random, until RetryFor is over.
//
// Keys, clients and authors are whatever strangers wrote. They are values in each format, never markup, and what
// cannot be seen is written as its code point. Secrets and URLs are in no error and no log line: a URL is often the
// only secret that a webhook has.
package notify
