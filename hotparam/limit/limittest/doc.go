// Package limittest states what a limiter must hold as a suite that every
// implementation of limit.Store passes: [Run] for one store, [RunSame] for two
// that have to agree in every number.
//
// The oracle is a plain log of what was admitted, in exact integers: for each
// algorithm one function says whether a cost fits at a time. All that a Result
// claims (remaining, retry, reset) is checked against that function alone, at
// the moment itself and one microsecond before it.
//
// Published tables run as they were published; laws run as properties over
// random traces. HOTPARAM_LIMIT_STEPS is the number of steps per law, 10,000 by
// default and a million at night.
package limittest
