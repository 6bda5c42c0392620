package program

import (
	"testing"
	"time"
)

// Await asks again until ok says yes, because the other side is a process away. A
// test that waited in vain fails, and names what it waited for.
func Await(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(most)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v for: %s", most, what)
		}
	}
}
