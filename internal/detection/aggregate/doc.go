// Package aggregate runs a detector for as long as a process lives: counts
// come in from any goroutine, hot sets go out to a [Publisher].
//
//	sources ──Send──> detector (keys in shards, a lock each)
//	                     │ every Tick, and at once when a key crosses
//	                     ▼
//	              judging loop (1) ──OnChange──> events      Hot(), Changes()
//	                     │ newest set only
//	                     ▼
//	              publishing loop (1) ──> Publisher, retried
//
// Send never waits for a publication, and a publication never holds up the
// judging: only the newest set waits to be published, and one that comes
// before it was takes its place. A set goes out at once when a key entered or
// left it, and otherwise at every refresh (a quarter of HotTTL, at most one
// second), empty or not, so that entries do not expire while they are hot, a
// store that lost everything has the set again within a second, and readers
// can distinguish a quiet aggregator from a dead one.
//
// A publication that fails is tried again with the newest set after a growing
// pause of at most one second; an outage is logged when it begins and when it
// ends, every failed attempt is counted. Sets carry Version 0: the Publisher
// gives versions.
//
// Where the Publisher says that another process publishes under the same id,
// this one stands by: it counts and judges as ever, and asks again when the
// other one may be gone, so that it can take over with warm windows.
//
// An Aggregator that receives nothing of its sources ([Config.Sources]) has no input: it
// publishes on, with NoInput in the set, and lets nothing cool for NoInputTTL. Nor does
// anything cool by what it did not count while the process stood still.
//
// When its context ends, [Aggregator.Run] judges once more and makes one last
// attempt to publish, of at most one second, so that what is hot stays so
// while another aggregator takes over. It does not take the set back.
package aggregate
