package detect

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Goroutines add counts beside all other methods. No count is lost or counted twice. The race detector watches.
func TestDetector_ConcurrentMethods(t *testing.T) {
	t.Parallel()
	d := New(set(topic(5), catchAll()), Options{Shards: 4, Counters: 4000})
	var readers, others sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for i := range 200 {
				batch := make([]hottype.Count, 0, 300)
				for k := range int64(300) {
					key := hottype.Key(fmt.Sprint("topic?id=", (int64(i)*k)%997))
					if k%10 == 0 {
						key = "/path?id=1"
					}
					batch = append(batch, count(key, int64(i)/50, 1+k%3))
				}
				d.AddAll(at(float64(i)/50), batch)
			}
		})
	}
	for _, f := range []func(){
		func() { d.Tick(at(0)) }, func() { d.Stats(); d.Errors() }, func() { d.OverThreshold(1000) },
		func() { d.SetRules(set(topic(5), catchAll())) },
		func() { d.Forget(at(0), func(key hottype.Key) bool { return key == "topic?id=1" }) },
	} {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	readers.Wait()
	close(done)
	others.Wait()
	s, _ := d.Tick(at(3.99))
	if st := d.Stats(); st.Adds+st.DroppedLate != 4*200*300 || st.Adds < 200*300 || len(s.Keys) == 0 {
		t.Errorf("%d of %d added, %d hot", st.Adds, 4*200*300, len(s.Keys))
	}
	if !slices.ContainsFunc(s.Keys, func(h hottype.HotKey) bool { return h.Key == "/path?id=1" }) {
		t.Errorf("the path is not hot: %+v", s.Keys)
	}
}

// The number of shards does not change the result.
func TestResultIndependentOfShards(t *testing.T) {
	t.Parallel()
	var want []string
	for _, shards := range []int{1, 2, 8, 1000} {
		d := New(set(topic(3), catchAll()), Options{Shards: shards})
		var got []string
		for s := range int64(20) {
			batch := make([]hottype.Count, 0, 700)
			for i := range int64(700) {
				batch = append(batch, count(hottype.Key(fmt.Sprint("topic?id=", i*i%40)), s-i%3, i%2),
					count(hottype.Key(fmt.Sprint("/p?x=", i%9)), s, i%(s+1)))
			}
			d.AddAll(at(float64(s)), batch)
			got = append(got, tape(d.Tick(at(float64(s)+0.5))))
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d shards: %q, want %q", shards, got, want)
		}
	}
}
