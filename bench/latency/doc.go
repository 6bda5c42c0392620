// Latency measures how long a topic that goes viral stays unlimited: from the request that lifts it over its threshold
// to its first refusal by the later of two limiters.
//
//	go run ./latency [-trials 200] [-windows 2s,5s] [-quiet 500] [-topics 1000] [-json FILE] [-server redis-server]
//
//	in process      gate ──> tally ──> aggregate ──> two mirrors ──> two gates
//	UDP StatsD      gate ──> tally ──> statsd ──UDP──> aggregator ──> Redis ──> two sidecars
//	Kafka           gate ──> tally ──> kafka ──> broker ──> aggregator ──> Redis ──> two sidecars
//
// In process these are the parts that hotparam serve wires. In the others the aggregator and the sidecars are the
// programs of this repository, built from this tree, with their default settings (except for addresses and
// --sidecar.count none, because the counting is done here). Redis is a real server. The broker is the embedded broker
// of franz-go, which adds the least time that Kafka can add.
//
// A trial is one topic of its own. After a pause of a random part of a second, requests for it begin, steadily, at four
// times the rate of the rule, each from another client, by a timetable that does not wait for answers. So the request
// number rate x window makes the true count over the window reach the threshold, and the clock starts just before that
// request is counted. Every 5 ms each limiter is asked, uncounted, about the topics of all trials under way (a sidecar
// by one POST /v1/decide). The limit is one request an hour, so a hot topic is refused from the second question on,
// whichever of the two limiters was asked the first, and the clock stops when both have answered with a refusal. So a
// result is at most two intervals too long and never too short. Ten trials run beside each other, with other topics
// that must not be denied.
//
// The stages come from marks on the way: the times at which tally passed on the count that reached the threshold, at
// which the aggregator calls the key hot, at which it judged the set, and at which our follower had that set. Their
// medians need not add up to the median of the whole. Beside the trials runs an idle program, which has as many timers
// and does nothing. Its late wake-ups are the delay that the machine alone causes for all programs.
//
// A topic that is refused before it reached its threshold, or is not refused within 10 s, is an error.
package main
