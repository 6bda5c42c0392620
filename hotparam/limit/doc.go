// Package limit says what is allowed and counts it in one process.
//
// A [Spec] is a limit: write one, or use [PerSecond] and its like. A [Charge] asks for
// some of it, a [Result] answers. A [Store] judges the charges of one request together:
// either all of them are charged or none is (law U3). [Memory] is the store of one
// process; package redislimit has the one that many processes share.
//
// The package is pure: time is an argument, there is no I/O and no goroutine. All
// arithmetic is exact in integers; see Spec.Validate for the domain. The laws
// are stated in docs/limits.md. Package limittest tests them on any Store.
package limit
