// Command flood plays a crawler of thousands of addresses and unique URLs against a site of 100 requests a second, with
// members, readers who return and new readers, and measures who is answered: the figures of RESULTS.md.
//
//	go run ./flood                     # the matrix, on virtual time, and the picture of docs/crawlers.md
//	go run ./flood -cookies            # crawlers that keep cookies, two virtual hours each
//	go run ./flood -programs           # six cells of a minute with real programs; needs redis-server and nginx
//	go run ./flood -show FILE          # one minute of it, without and with priority, drawn into FILE
//
// A simulation has the real gates, limit store, passes, detector and controllers, in front of a simulated upstream of
// four workers with one queue. Two sidecars share a limit store, which stands for Redis. All clients come from a seed.
//
// With real programs, this program is the upstream, whose workers sleep, and the clients: they name their addresses in
// X-Forwarded-For, as a load balancer would. The machine decides how many requests it can send; the tables say how many
// it sent. An answer counts from the time at which its request was due, so a busy machine makes answers slower and
// never faster.
//
// The first three write results.json and the tables of RESULTS.md beside this file. A test plays a part of the matrix
// and compares the page with results.json.
package main
