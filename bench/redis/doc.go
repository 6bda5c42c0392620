// Redis compares limits that many processes share, through one real
// redis-server on a free loopback port: hotparam's store (redislimits) beside
// redis_rate, throttled and rueidislimiter.
//
//	go run ./redis [-rounds 5] [-for 400ms] [-callers 16,64,256] [-only regexp] [-server redis-server]
//
// "admitted" has a limit that is never reached, "refused" one of 100 a second,
// which is what a hot key is like. "bucket + fixed + sliding" is one decision by
// the limit of a hot key and the two windows of one of 1000 clients: one call of
// ours, three calls of a peer, one after the other. "through a gate" is the whole
// decision of a sidecar, from the request on; with "windows async" that is what
// the row of ours is. Every contender has a client of its own with the options
// that it comes with, and contexts with a deadline.
//
// "a caller alone" asks all contenders in turn, from one goroutine; -for does not concern it.
//
// Every measurement has a lead-in of half its length that does not count. CPU is
// that of this process, load generator included, Redis' CPU what INFO says, both
// divided by decisions; an error is no decision. "over the limit" is how many were
// admitted, from the lead-in on, beyond what the limit of the key allows for that
// time.
package main
