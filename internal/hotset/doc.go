// Package hotset is the hot set as a reader holds it: in memory, merged from
// all publishers, asked once per request.
//
// Publications enter by [Replica.Replace]; [Replica.Lookup] answers from an
// immutable map behind one atomic pointer, so that asking about a cold key
// takes no lock, allocates nothing and costs a few nanoseconds. A publisher that
// falls silent has not said that its keys are cold: they stay hot for
// [Replica.TTLBlind], and [Replica.CheckPublishers] tells who is silent or blind.
//
// What changes a publisher's set into its next one is a [Delta]: [DeltaEncoder] makes it
// from what readers hold, [Delta.Apply] gives them the next set.
//
// The package is pure: time is an argument, there is no I/O and no goroutine.
package hotset
