// Mutate measures the tests: it plants faults in the code, one at a time, and
// says which of them no test notices.
//
// The faults are in faults/*.txt. Each is a text that occurs once in one file,
// its replacement, and the tests that should fail then. The tree stays
// as it is: "go test -overlay" compiles the changed copy, scripts that are
// embedded included. An ordinary test of this package checks that every fault
// still fits the code.
//
//	cd test && go run ./mutate                  # all of them: make mutate
//	cd test && go run ./mutate -run refund      # those whose name matches
//	cd test && go run ./mutate -list
//
// A fault is killed when a test fails, when the program crashes, or when the
// tests do not end in time. One that survives is a law that no test holds: write
// the test. First all named tests have to pass without a fault.
//
// The tables hold what a person thought of. The same program changes the core by rule:
// operators, bounds, constants, and statements that are deleted, in Go and in Lua.
//
//	cd test && go run ./mutate -mutants .                        # all: make mutants
//	cd test && go run ./mutate -mutants canon -sample 60 -seed 2 # 60 of one package
//
// Only lines that the package's tests run are changed, a change that does not compile does not
// count, and all tests of the package run until one fails. subjects.go lists the code
// and its tests, equivalent.txt the changes that no test can notice, with the reason.
//
// The rules know 16,700 changes, of 2 to 8 s of processor time each: an estimate from samples is 15 hours, so
// 8 of a night on two cores, two at a time. Rates of samples of 24 Nov 2026 (seeds 11 to 15, a Firecracker VM
// with two busy cores) of what is killed:
//
//	lua/ 97 to 100 %             window 93 %, detect 60 %, aggregate 95 %, hotset 100 %
//	fairness 93 %, gate 81 %     guarded 80 %, respcache 75 %, redislimits 58 %
//
// Tests for what survived these samples came after them: measure again.
package main
