// Package doctor judges what the edges saw of the systems around the pipeline:
// it says what would silently break, why that matters and how to fix it.
//
//	statsd.Inspect, carbon.Inspect, kafka.Inspect, redisstore.Inspect, udpstat.Inspect
//	        └── plain facts ──> doctor ──> []Finding ──> text or JSON
//
// It looks at nothing itself. A [Finding] that is fine is told too: a person
// wants to know what was looked at.
package doctor
