package measure

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

// Rounds runs every case once a round, one after the other, backwards in every second round, so that a busy moment of
// the machine affects all cases. The garbage of a case is collected before the next case begins.
func Rounds(n int, cases ...func() error) error {
	for round := range n {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, n)
		for i := range cases {
			if round%2 == 1 {
				i = len(cases) - 1 - i
			}
			debug.FreeOSMemory()
			if err := cases[i](); err != nil {
				return err
			}
		}
	}
	return nil
}

// OnCores calls f while Go uses n cores.
func OnCores(n int, f func() error) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	return f()
}
