// Package limit holds every limiting algorithm in plain Go: the reference that
// the Lua scripts are checked against, the in-process store, and the fallback
// when the shared store does not answer.
//
// A [Spec] says what is allowed, a [Charge] asks for some of it, a [Result]
// answers. A [Store] judges the charges of one request together: either all of
// them are charged or none is (law U3). [Memory] is the store of one process;
// package redisstore has the one that many processes share.
//
// The package is pure: time is an argument, there is no I/O and no goroutine. All
// arithmetic is exact in integers; see Spec.Validate for the domain. The laws
// are stated in docs/limits.md and tested by package limittest.
package limit
