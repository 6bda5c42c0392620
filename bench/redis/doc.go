// Redis compares limits that many processes share, through a real redis-server on a free loopback port: hotparam's
// store (redislimits) beside redis_rate, throttled and rueidislimiter.
//
//	go run ./redis [-rounds 5] [-for 400ms] [-callers 16,64,256] [-only regexp] [-server redis-server]
//
// "admitted" has a limit that is never reached, "refused" a limit of 100 a second, as a hot key has. "bucket + fixed +
// sliding" is one decision by the limit of a hot key and the two windows of one of 1000 clients: one call of ours,
// three calls of a peer, one after the other. "through a gate" is the whole decision of a sidecar, from the request on;
// with "windows async" our row is such a decision too. Every contender has a client of its own with its default
// options, and contexts with a deadline.
//
// "a caller alone" asks all contenders in turn, from one goroutine; -for does not concern it.
//
// Every measurement has a lead-in of half its length that does not count. CPU is the CPU time of this process, load
// generator included, and Redis' CPU the time in INFO, both divided by decisions; an error is not a decision. "over the
// limit" is the number of requests admitted, from the lead-in on, beyond the limit of the key in that time.
package main
