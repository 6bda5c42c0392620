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
// The rules know 16,700 changes. One costs 0.4 s (a script) to 10 s (redislimits) of two cores, mostly
// to compile, so a night has room for SAMPLE=400 of each subject, and not for all.
package main
