package history

import (
	"encoding/json"
	"testing"
	"time"
)

// A minute holds the sum of the seconds that limiters reported, or Unknown if they reported no second.
func TestRecorder_KeepsTheUnknownApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seconds [2]Requests
		want    string
	}{
		{[2]Requests{Unknown, Unknown}, "null"}, {[2]Requests{0, Unknown}, "0"}, {[2]Requests{Unknown, 7}, "7"},
		{[2]Requests{3, 4}, "7"}, {[2]Requests{0, 0}, "0"},
	} {
		r, began := NewRecorder(10), time.Unix(6000, 0)
		for i, n := range c.seconds {
			r.Add(&Second{At: began.Add(time.Duration(i) * time.Second), Allowed: n, Denied: n,
				Keys: []KeySecond{{Key: "topic?id=1", Allowed: n, Denied: n}}})
		}
		m := r.End()
		var h HeatmapKey
		h.Add(3, &m.Keys[0])
		for what, n := range map[string]Requests{"total": m.Total.Denied, "key": m.Keys[0].Denied,
			"cell": h.Cells[0].Denied} {
			text, err := json.Marshal(n)
			var back Requests
			if err != nil || string(text) != c.want || json.Unmarshal(text, &back) != nil ||
				back.IsKnown() != n.IsKnown() {
				t.Errorf("%v: the %s has %s, want %s", c.seconds, what, text, c.want)
			}
		}
	}
}
