package detect

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Heaviest returns the keys with the greatest rates over all rules and shards, hot or not.
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

// A number of bytes is greater than any number of requests, so each cost has its own heaviest keys.
func TestHeaviest_OfEachCost(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		slow := topic(0)
		slow.Name, slow.Cost = "slow", hottype.CostBytes
		d := New(set(slow, catchAll()), Options{Shards: shards})
		for i := range int64(50) {
			for _, c := range []hottype.Count{
				count(hottype.Key(fmt.Sprintf("slow?id=%d", i)), 0, 1e6*(i+1)), count(hottype.Key(fmt.Sprintf("/%d", i)), 0, i+1),
			} {
				d.Add(at(0), c)
			}
		}
		var got []string
		for _, h := range d.Heaviest(2) {
			got = append(got, fmt.Sprintf("%s %s %g", h.Cost, h.Key, h.Rate))
		}
		want := []string{" /49 50", " /48 49", "bytes slow?id=49 1e+07", "bytes slow?id=48 9.8e+06"}
		if !slices.Equal(got, want) {
			t.Errorf("%d shards: %q", shards, got)
		}
	}
}

// The rate of a steady key is right at any moment, also if the counts of a second come all at once when it is over.
func TestDetector_RateOfWholeSeconds(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{WholeSeconds: true}) // 5 s
	for second := range 20 {
		for tenth := range 10 {
			now := float64(second) + float64(tenth)/10
			if tenth == 3 { // counts of the second before
				d.Add(at(now), count("topic?id=1", int64(second), 50))
			}
			got, _ := d.Tick(at(now))
			if second > 6 && (len(got.Keys) != 1 || got.Keys[0].Rate != 50) {
				t.Fatalf("at %g: %+v", now, got.Keys)
			}
		}
	}
}
