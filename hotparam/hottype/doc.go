// Package hottype holds the plain types that the packages of the pipeline share.
//
// One topic goes viral, one parameter value (/topic?id=42) takes the whole endpoint down and every other topic with it.
// The pipeline counts the requests for each value, finds the values that are hot right now, and limits only those.
//
//	request ──> Key ──> Count ──> window ──> HotKey ──> hot set ──> replica ──> Verdict
//	        canon     tally     detect            publish         gate
//
// A [Request] is canonicalised to a [Key]. The requests for a key are summed to a [Count], which carries its own
// second. Counts over a window make a key a [HotKey]; all hot keys of a namespace are its hot set. The gate holds a
// replica of it in memory and answers each request with a [Verdict].
//
// Two paths are joined only by the hot set: counting never waits for a response, and deciding never waits for counting.
//
// This package imports the standard library only, does no I/O and reads no clock. Every type here is a plain value.
package hottype
