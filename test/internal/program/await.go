package program

import (
	"testing"
	"time"
)

// look is the interval at which Await checks the condition.
const look = 10 * time.Millisecond

// Await polls until a condition holds, because the other side is a process away, and ends the test if it does not hold
// in time. A late poll counts as one interval only, because a machine that is busy with other things delays the awaited
// event as well.
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
