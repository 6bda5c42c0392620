// Redis compares limits that many processes share, through one real
// redis-server on a free loopback port: hotparam's store (redisstore) beside
// redis_rate, throttled and rueidislimiter, all for one key.
//
//	go run ./redis [-rounds 5] [-for 400ms] [-callers 1,16,64,256] [-server redis-server]
//
// "admitted" has a limit that is never reached, "refused" one of 100 a second,
// which is what a hot key is like. "bucket + fixed + sliding" is one decision by
// the limit of a hot key and the two windows of one of 1000 clients: one call of
// ours, three calls of a peer, one after the other, by 64 callers. Every
// contender has a client of its own with the options that it comes with.
//
// Redis' CPU is what INFO says, divided by decisions; an error is no decision.
package main
