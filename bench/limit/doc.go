// Command limit compares limiters that several servers share: hotparam's sidecars, three Go libraries and a script on
// Redis, three servers, and nginx. It shows how many requests each admits within any stretch of time, which clients get
// them, and what callers feel while the store of the counts is slow, frozen, gone or failing over.
//
//	go run ./limit [-seed 1] [-only regexp]   # measures and writes results.json, RESULTS.md and the picture
//	go run ./limit -draw                      # writes page and picture from results.json
//	go run ./limit -quick                     # accuracy over three seconds; writes nothing
//
// It needs redis-server in the PATH, and nginx there to compare it. Other programs are installed into -peers when it
// first runs: two with go, and one with cargo, which needs protoc. Gubernator needs unshare and the right to name a
// host. A contender that cannot be had is left out, and the page names it.
package main
