package program

import (
	"testing"
	"time"
)

// look is how often Await looks.
const look = 10 * time.Millisecond

// Await looks until a condition holds, because the other side is a process away, and ends the test if it does not hold
// in time. A look that comes late counts as one that does not: a machine that is busy with other things delays whatever
// is waited for as well.
func Await(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	for left := most; ; left -= look {
		asked := time.Now()
		if ok() {
			return
		}
		if left -= time.Since(asked); left <= 0 {
			t.Fatalf("waited %v for: %s", most, what)
		}
		<-time.After(look)
	}
}
