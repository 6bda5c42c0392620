// Package aggregate runs a detector for as long as a process lives: it takes counts from any goroutine and hands hot
// sets to a [Publisher].
//
//	sources ──Send──> detector (keys in shards, a lock each)
//	                     │ every Tick, and at once when a key crosses
//	                     ▼
//	              judging loop (1) ──OnChange──> events      Hot(), Changes()
//	                     │ newest set only
//	                     ▼
//	              publishing loop (1) ──> Publisher, retried
//
// Send never waits for a publication, and a publication never holds up judging: only the newest set waits to be
// published, and a newer set takes its place. A set is published at once when a key entered or left it, and otherwise
// at every refresh (a quarter of HotTTL, at most one second), empty or not, so that entries do not expire while they
// are hot, a store that lost everything has the set again within a second, and readers can distinguish a quiet
// aggregator from a dead one.
//
// A publication that fails is tried again with the newest set after a growing pause of at most one second. An outage is
// logged when it begins and when it ends, and every failed attempt is counted. Sets carry Version 0, because the
// Publisher assigns versions.
//
// If the Publisher reports that another process publishes under the same id, this process stands by: it counts and
// judges as usual, and asks again when the other process may have stopped, so that it can take over with warm windows.
//
// An Aggregator that receives no counts from its sources ([Config.Sources]) has no input: it continues to publish, with
// NoInput in the set, and cools no key for NoInputTTL. Nor does a key cool because of counts that were missed while the
// process stood still.
//
// When its context ends, [Aggregator.Run] judges once more and makes one last attempt to publish, of at most one
// second, so that hot keys stay hot while another aggregator takes over. It does not withdraw the set.
package aggregate
