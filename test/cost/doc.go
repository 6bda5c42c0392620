// Package cost guards the cost of a request: the allocations and instructions of ten hot paths are compared with
// recorded ones, because a shared machine measures time too badly to notice a loss of 5 %.
//
// Valgrind counts the instructions, the same each time to about 1 %, on machines without counters too. The cost of one
// call is computed from a run of many calls and a run of few. The prices are recorded for one version of Go; with
// another version, or without Valgrind, only allocations are compared. TestParsing_TakesLinearTime compares times of
// one run instead, as a ratio. After a change that is worth its price:
//
//	cd test && HOTPARAM_COST_RECORD=1 go test -count=1 ./cost
package cost
