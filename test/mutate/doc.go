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
package main
