// Package detect judges which keys are hot right now: counts and a clock go
// in, the hot set and its changes come out.
//
//	AddAll ──> rule, hash ──> shard (a lock each) ──> window of the rule ─┐ crossed
//	               └──> traffic of the resource           baseline, clients    v
//	Tick ────────────────────────────────────────────> candidates ──> hot set
//
// A key is listed as a candidate from the moment its count over its rule's
// window (the seconds now-window+1 … now) reaches the least that any criterion
// of the rule asks for. It is hot when its count reaches the rule's rate, or its
// share of the resource's traffic, or so many times its own past; and until it
// has been below the release threshold of each that made it so, for Cool without a
// break. The hot set is the hot keys; where a rule has MaxHot, the heaviest of
// them; and without those that a few clients ask for in a loop, where it has
// MinClients.
//
// [Detector.AddAll] places counts and says at once when one made a key hot, so
// that no caller has to wait for the next [Detector.Tick]. Tick lets time pass,
// judges, and gives the set. By share and surge a key is looked at when its
// count reaches MinRate, and then at every Tick, because others move its
// threshold.
//
// # How sure
//
// Counts are exact until a rule's counters are all taken, and lower bounds with
// a known error from then on (package window). Keys are judged by the lower
// bound, so none is hot that is not; HotKey.Upper says how much more it may be,
// [Detector.Errors] how wrong each rule can be, [Check] how wrong it could
// become. HotKey.Rate is over a window that ends now, not with the second: the
// second that left last counts by the part of it that would still be in. The
// thresholds go by whole seconds.
//
// # Shards
//
// A key belongs to one shard, by its hash, and a shard has a lock, a window for
// each rule, and its own candidates: goroutines that add wait for each other for
// one batch at most, nothing has to be merged, and a Tick holds one shard at a
// time, for as long as its candidates take. The window of a shard has its part of
// the rule's counters.
//
// # Time
//
// Time is the caller's and passes with every call. A count falls only when a
// second turns, so that is when cooling begins, however rarely Tick is called.
// When now steps back a little, time stands still until it is reached again;
// when it steps back by more than the windows, the clock had been wrong, and
// counting begins anew (hot keys cool from there on).
//
// # Rules
//
// Which rule judges a key: the one named by its resource, else the catch-all.
// Of an alias, "!hp1:{resource}.{params}" in HP1 form, the resource is decoded
// first; where that is not possible, because it was too long and is a hash, it
// can only be a path, which the catch-all judges. Keys that no rule judges are
// dropped and counted.
//
// # Bounds
//
// Each rule has Options.Counters, of about 200 bytes, and as many for the past
// where it has Surge and for the resources where it is the catch-all. A shard
// lists 2 x MaxHot + 64 candidates of a rule; with a threshold so low that there
// are more, the heaviest.
//
// Cost: an Add is a hash, a look-up in the window and one of the traffic,
// whatever the weight. When a second turns, each count of the second that ended
// and of the one that leaves is looked at once, and each candidate. Tick is one
// look at each candidate.
//
// With one shard, and counters enough, the result depends on the calls and their
// times only: not on map order, nor on the machine. Where counters are short it
// depends on the hash's seed too, within the error. The package is pure: no clock,
// no I/O.
package detect
