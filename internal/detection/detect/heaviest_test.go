package detect

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The heaviest of all keys are found over rules and shards, by their rates, hot or not.
func TestHeaviest(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		slow := topic(0) // rates over 5 s
		slow.Hot.Rate = 1000
		d := New(set(slow, catchAll()), Options{Shards: shards})
		for i := range int64(50) {
			d.Add(at(0), count(hottype.Key(fmt.Sprintf("topic?id=%d", i)), 0, 5*i))
			d.Add(at(0), count(hottype.Key(fmt.Sprintf("search?q=%d", i)), 0, i/2))
		}
		var got []string
		for _, h := range d.Heaviest(4) {
			got = append(got, fmt.Sprintf("%s %s %g", h.Rule, h.Key, h.Rate))
		}
		want := []string{"topic topic?id=49 49", "topic topic?id=48 48", "topic topic?id=47 47", "topic topic?id=46 46"}
		if !slices.Equal(got, want) {
			t.Errorf("%d shards: %q", shards, got)
		}
		if n := len(d.Heaviest(1000)); n != 97 {
			t.Errorf("%d shards: %d keys, want all with a count", shards, n)
		}
	}
}
