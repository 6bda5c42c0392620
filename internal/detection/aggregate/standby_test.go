package aggregate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// owned is the error of a publisher whose id another process has.
type owned struct{ left time.Duration }

func (o owned) Error() string          { return "owned by another" }
func (o owned) Standby() time.Duration { return o.left }

// A process that stands by continues to count, asks again at the time that the error names and not before, and
// publishes the newest set as soon as it may.
func TestStandbyAsksWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	rec := new(recorder)
	rec.become(fmt.Errorf("wrapped: %w", owned{700 * time.Millisecond}), false)
	bubble(t, Config{Publish: rec}, func(t *testing.T, a *Aggregator, _ func()) {
		pass(3 * time.Second)
		times := rec.attempts()
		for i := range times[1:] {
			if d := times[i+1].Sub(times[i]); d < 700*time.Millisecond || d > 900*time.Millisecond {
				t.Errorf("asked again after %v", d)
			}
		}
		if st := a.Stats(); !st.Standby || st.PublishErrors != 0 || len(times) < 3 {
			t.Errorf("%d attempts, %+v", len(times), st)
		}
		send(t, a, "topic?id=1", 100)
		if n := len(rec.attempts()); n != 0 {
			t.Errorf("%d attempts because a key became hot", n)
		}
		rec.become(nil, false)
		pass(900 * time.Millisecond)
		synctest.Wait()
		sets := rec.published()
		if len(sets) == 0 || len(keys(sets[0])) != 1 || a.Stats().Standby {
			t.Errorf("taken over with %+v", sets)
		}
	})
}
