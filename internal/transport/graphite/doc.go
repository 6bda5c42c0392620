// Package graphite takes counts out of Graphite: it asks the render API which
// metrics of ours are busy, and hands their buckets on as counts, each bucket
// once.
//
//	StatsD server ──> carbon ──> GET /render ──> Poller ──> Handle
//	  1 flush/s                   1 poll/s
//
// This was the first form of the whole idea, a script that looks into Graphite
// every few seconds. It is kept for sites that run StatsD and Graphite anyway;
// the ways by package statsd and package kafka are quicker and lose less.
//
// # What is asked
//
// One target for each rule, such as
//
//	maximumAbove(stats_counts.hotparam.topic.hot_param.*,139.86)
//
// so the threshold is applied where the data is, and an answer holds the
// busy keys only. The threshold is the rule's cooling mark for one bucket: a
// window whose sum reaches the mark has a bucket that does, so no key is missed
// that is hot or still has to cool. maximumAbove does not count buckets without
// a value, and leaves the names as they are.
//
// From and until are relative, so they are read by Graphite's clock, not ours.
//
// # From buckets to seconds
//
// A bucket with the time t stands for what the StatsD server counted in the
// flush interval that ended at t. It is spread evenly over the seconds of that
// interval. They reach us late, and always equally late: by the flush, by
// carbon, by the poll. Left at their own place, the newest seconds of every
// window would be missing and no key would ever reach its threshold. So all of
// them are moved by the same delay, the longest that was lately seen between the
// end of a bucket and the poll that brought it: then a window is full when it
// is judged. See clockoffset.go and docs/adr.
//
// What is older than the longest window is left out, and what is more than half
// a minute behind is not moved up to the present: a backlog makes nothing hot.
package graphite
