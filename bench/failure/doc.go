// Failure measures what decisions feel of a Redis that fails, in every way that
// we could think of and could bring about: real redis-servers, two real gates
// with a client, a follower and a heartbeat each, as two sidecars have them.
//
//	go run ./failure [-rate 5000] [-trouble 4s] [-only frozen,killed] [-server redis-server]
//
// Decisions begin by a timetable, whether the ones before have ended or not, and are
// timed from the moment that the timetable says, so a late start counts as
// waiting. One in five is about a hot key (100/s, burst 200, shared); the rest are
// of 1000 clients with a shared window each, so that nearly all ask Redis.
// The limit in the verdict shows which store decided: while Redis fails
// each gate enforces a half.
//
// Columns: "p99 of the start" is how late decisions began: what the machine adds
// by itself. "late" is of decisions that took more than the budget (20 ms) and
// 5 ms. "hung" had not come back after a second. "hot key by share" is what passed
// while Redis failed, and what two shares would let pass in that time at most.
// "in all" is what passed from first to last, and 200 + 100/s, once more 200 for
// the shares, and once more where Redis lost its data. "first" and "normal" are
// the times from the moment when Redis answers again, by a connection of its own,
// to the first decision by Redis and to the beginning of the first 200 ms in which
// all are.
package main
