package detect_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

// While counts may be missing, no key leaves the hot set, by any criterion. Afterwards, keys without requests leave
// exactly when a window and the cooldown have passed.
func TestMarkIncomplete_StopsCooling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.IntRange(1, 8).Draw(t, "window")) * time.Second
		cool := time.Duration(rapid.IntRange(0, 40).Draw(t, "cool")) * 100 * time.Millisecond
		criteria := rules.HotCriteria{Rate: 10, Window: window, Cooldown: cool, ReleaseRatio: 0.7}
		if rapid.Bool().Draw(t, "share") {
			criteria.Share, criteria.MinRate = 0.2, 5
		}
		if rapid.Bool().Draw(t, "clients") {
			criteria.MinClients = 3
		}
		d := detect.New(&rules.Set{Rules: []*rules.Rule{{Name: "topic", Hot: criteria}}},
			detect.Options{Shards: rapid.IntRange(1, 4).Draw(t, "lanes")})
		now := time.Unix(1000, 0)
		pass := func(d time.Duration) { now = now.Add(d) }
		for range 20 {
			for id := range 3 {
				who := new(hottype.ClientSketch)
				for client := range 20 {
					clientsketch.Add(who, hottype.ParseClient(fmt.Sprint("192.0.2.", client)), 1)
				}
				d.Add(now, hottype.Count{Key: hottype.Key(fmt.Sprint("topic?id=", id)), N: 20, Second: now.Unix(),
					Clients: who})
			}
			d.Tick(now)
			pass(time.Second)
		}
		hot := func() int { s, _ := d.Tick(now); return len(s.Keys) }
		d.MarkIncomplete(now)
		if hot() != 3 {
			t.Fatalf("%d hot", hot())
		}
		var last time.Time
		for range rapid.IntRange(1, 300).Draw(t, "ticks") {
			last = now
			d.MarkIncomplete(now)
			if n := hot(); n != 3 {
				t.Fatalf("%d hot while counts may be missing", n)
			}
			pass(100 * time.Millisecond)
		}
		end := last.Add(window + cool)
		for range 200 {
			// One second more, because windows move by whole seconds.
			if n := hot(); n < 3 && now.Before(end) || n > 0 && now.After(end.Add(time.Second)) {
				t.Fatalf("%d hot %v after counts were missing; window %v, cool %v", n, now.Sub(last), window, cool)
			}
			pass(100 * time.Millisecond)
		}
	})
}
