// Latency measures how long a topic that goes viral stays unlimited: from the
// request that lifts it over its threshold to its first refusal, by whichever of
// two limiters refuses it last.
//
//	go run ./latency [-trials 200] [-windows 2s,5s] [-quiet 500] [-topics 1000] [-json FILE] [-server redis-server]
//
//	in process      gate ──> tally ──> aggregate ──> two mirrors ──> two gates
//	UDP StatsD      gate ──> tally ──> statsd ──UDP──> aggregator ──> Redis ──> two sidecars
//	Kafka           gate ──> tally ──> kafka ──> broker ──> aggregator ──> Redis ──> two sidecars
//
// In process these are the parts that hotparam serve wires. In the others the
// aggregator and the sidecars are the programs of this repository, built from
// this tree, with their default settings (but for addresses and --sidecar.count
// none: the counting is done here); Redis is a real server, the broker the
// embedded one of franz-go, which is the least that Kafka can add.
//
// A trial is one topic of its own. After a pause of a random part of a second,
// requests for it begin, steadily, at four times the rate of the rule, each from
// another client, by a timetable that waits for no answer. So the request number
// rate x window is the one that makes the true count over the window reach the
// threshold: the clock starts just before that request is counted. Every 5 ms each
// limiter is asked, uncounted, about the topics of all trials under way (a
// sidecar by one POST /v1/decide). The limit is one request an hour, so a topic
// that is hot is refused from the second question on, whichever of the two was
// asked the first: the clock stops when the answer that refuses it has come from
// both. So a result is at most two askings too long and never too short. Ten
// trials run beside each other, with other topics that must not be denied.
//
// The stages come from marks on the way: when tally handed the count over that
// reached the threshold, since when the aggregator calls the key hot, when it
// judged the set, when a follower of ours had that set. Their medians need not
// add up to that of the whole. Beside the trials runs an idle program, which has
// as many timers and does nothing: by how much it wakes up late is what the
// machine alone does to everybody.
//
// A topic that is refused before it reached its threshold, or not within 10 s,
// is an error.
package main
