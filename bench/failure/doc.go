// Failure measures how decisions are affected by a Redis that fails, in every way that we could think of and could
// cause: real redis-servers, and two real gates with a client, a follower and a heartbeat each, as two sidecars have
// them.
//
//	go run ./failure [-rate 5000] [-trouble 4s] [-only frozen,killed] [-server redis-server]
//
// Decisions begin by a timetable, whether the decisions before have ended or not, and are timed from their time in the
// timetable, so a late start counts as waiting. One in five is about a hot key (100/s, burst 200, shared); the others
// are about 1000 clients with a shared window each, so that nearly all use Redis. The limit in the verdict shows which
// store decided: while Redis fails each gate enforces a half.
//
// Columns: "p99 of the start" is how late decisions began, which is the delay of the machine itself. "late" is the
// share of decisions that took more than the budget (20 ms) and 5 ms. "hung" is the number of decisions that had not
// returned after a second. "hot key by share" is the number of requests that passed while Redis failed, and the upper
// bound that two shares let pass in that time. "in all" is the number of requests that passed from first to last, and
// the bound 200 + 100/s, plus 200 for the shares, plus 200 if Redis lost its data. "first" and "normal" are the times
// from the moment at which Redis answers again on a connection of its own to the first decision by Redis, and to the
// beginning of the first 200 ms in which Redis decides everything.
package main
