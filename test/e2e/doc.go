// Package e2e starts the real programs as processes, joins them by a real redis-server, an embedded Kafka broker or
// StatsD, sends traffic, and checks the effects on a site.
package e2e
