package detect

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// A clock that jumps ahead and back, or stands for a while, makes no key hot and loses only the counts of the wrong
// time. All shards see each reset once.
func TestClockStepsWithManyShards(t *testing.T) {
	t.Parallel()
	for name, jumps := range map[string][]float64{
		"an hour ahead and back": {0, 3600, 1}, "an hour back": {3600, 0, 1}, "a little back": {5, 4, 3, 6},
		"stands": {5, 5, 5, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(set(topic(0), catchAll()), Options{Shards: 8})
			var now float64
			for _, now = range jumps {
				var batch []hottype.Count
				for i := range 100 { // two thirds of the threshold, nowhere more
					c := count(hottype.Key(fmt.Sprint("topic?id=", i)), int64(now), 2)
					batch = append(batch, c)
				}
				if d.AddAll(at(now), batch) {
					t.Error("a key crossed")
				}
				d.Tick(at(now))
			}
			batch := []hottype.Count{count("topic?id=hot", int64(now), 10)}
			if !d.AddAll(at(now), batch) {
				t.Error("a hot key is not found afterwards")
			}
			if s, _ := d.Tick(at(now)); len(s.Keys) != 1 {
				t.Errorf("%+v", s.Keys)
			}
			st := d.Stats()
			if wrong := slices.Max(jumps) == 3600; wrong != (st.ClockResets == 1) || st.DroppedFuture > 200 {
				t.Errorf("%+v", st)
			}
		})
	}
}
