// Package canon turns requests into keys and keys into metric names.
//
// It takes the raw query of a request and returns its canonical parameters: the tracked pairs, decoded, normalised,
// sorted, and written in one spelling, so that requests for the same thing have the same key however they are written.
// A [Selector] does that, in one pass, without allocating.
//
// The raw query is read byte by byte and never through url.ParseQuery, which drops pairs with ";" or a bad escape and
// gives up above 10,000 pairs, so that an attacker could evade the limit. A request beyond [QueryBounds] does not go
// uncounted: it is counted under the reserved parameter [Malformed].
//
// [Names] writes a key as a metric name that StatsD, Graphite and their exporters leave alone (style hp1), and reads it
// back.
//
// The package is pure: no I/O, no clock, no state between calls other than the caller's [Scratch]. docs/protocol.md is
// its public contract.
package canon
