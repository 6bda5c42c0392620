// Package detect judges which keys are hot right now: counts and a clock go
// in, the hot set and its changes come out.
//
// A key is a candidate from the moment its count over its rule's window (the
// seconds now-window+1 … now) reaches the rule's threshold, until that count
// has been below the cooling threshold for Cool without a break. The hot set
// is the candidates; where a rule has MaxHot, the heaviest of them.
//
// [Detector.Add] places a count and says at once when it made a candidate, so
// that nobody has to wait for the next [Detector.Tick]. Tick lets time pass,
// judges, and gives the set.
//
// Time is the caller's and passes with every call. A count falls only when a
// second turns, so that is when cooling begins, however rarely Tick is called.
// When now steps back a little, time stands still until it is reached again;
// when it steps back by more than the windows, the clock had been wrong, and
// counting begins anew (hot keys cool from there on).
//
// Which rule judges a key: the one named by its resource, else the catch-all.
// Of an alias, "!hp1:{resource}.{params}" in HP1 form, the resource is decoded
// first; where that is not possible, because it was too long and is a hash, it
// can only be a path, which the catch-all judges. Keys that no rule judges are
// dropped and counted.
//
// Cost: Add is one look-up of the rule, none where the key before had the same
// resource, and one Add of a window, whatever the weight. When a second turns,
// each candidate is looked up once, and so is each key that was counted ahead
// of its second. Tick costs one sort of the candidates. Neither depends on how
// many keys are counted.
//
// The result depends on the calls and their times only: not on map order,
// nor on the machine. The room is pure: no clock, no I/O.
package detect
