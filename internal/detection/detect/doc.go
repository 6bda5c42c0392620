// Package detect judges which keys are hot now. It takes counts and the time, and returns the hot set and its changes.
//
//	AddAll ──> rule, hash ──> shard (a lock each) ──> window of the rule ─┐ crossed
//	               └──> traffic of the resource           baseline, clients    v
//	Tick ────────────────────────────────────────────> candidates ──> hot set
//
// A key is listed as a candidate from the moment its count over its rule's window (the seconds now-window+1 … now)
// reaches the lowest threshold of any criterion of the rule. It becomes hot when its count reaches the rule's rate, its
// share of the resource's traffic, or a multiple of its own past (surge). It stays hot until it has been below the
// release threshold of each criterion that made it hot for Cooldown without a break. The hot set holds all hot keys,
// with two exceptions: if a rule has MaxHot, only its heaviest keys, and if it has MinClients, no keys that a few
// clients request in a loop.
//
// [Detector.AddAll] adds counts and reports at once whether a key became hot, so that no caller has to wait for the
// next [Detector.Tick]. Tick advances the time, judges the candidates, and returns the set. By share and surge a key is
// judged when its count reaches MinRate, then at every Tick, because other keys move its threshold, and once more when
// the second ends.
//
// # Accuracy
//
// Counts are exact until all counters of a rule are taken, and from then on lower bounds with a known error (package
// window). Keys are judged by the lower bound, so no key is hot that should not be. HotKey.Upper is the upper bound of
// the rate, [Detector.Errors] returns the error that each rule can have now, and [Check] rejects rules whose error
// could become too large. HotKey.Rate is over a window that ends now, not with the second: the second that left last
// counts by the part of it that would still be in the window. Thresholds apply to whole seconds.
//
// # Shards
//
// A key belongs to one shard, by its hash. A shard has a lock, a window for each rule, and its own candidates, so
// goroutines that add wait for each other for at most one batch, nothing has to be merged, and a Tick holds one shard
// at a time, for as long as its candidates take. The counters of a rule are divided among the windows of its shards.
//
// # Time
//
// The caller passes the time with every call. A count falls only when a second ends, so cooling begins then, however
// rarely Tick is called. When now steps back a little, the time stands still until it is reached again. When it steps
// back by more than the windows, the clock had been wrong: counting begins again, and hot keys cool from that time on.
//
// # Rules
//
// A key is judged by the rule with the name of its resource, or else by the catch-all. The resource of an alias,
// "!hp1:{resource}.{params}" in HP1 form, is decoded first. A resource that cannot be decoded, because it was too long
// and is a hash, can only be a path, which the catch-all judges. Keys without a rule are dropped and counted.
//
// # Bounds
//
// Each rule has Options.Counters counters of about 200 bytes, and as many again for the baseline if it has Surge, and
// for the resources if it is the catch-all. A shard lists at most 2 x MaxHot + 64 candidates of a rule, the heaviest if
// its threshold is so low that there are more.
//
// Cost: an Add is one hash, one look-up in the window and one in the traffic, for any N. When a second ends, each count
// of that second and of the second that leaves is visited once, and each candidate. Tick visits each candidate once.
//
// With one shard and enough counters, the result depends only on the calls and their times, not on map order or the
// machine. If counters are short, it also depends on the hash's seed, within the error. The package is pure: no clock,
// no I/O.
package detect
