package detect

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// Full and Stats count the keys without a place in max_hot, by rule, for as long as they are over the threshold.
func TestDetector_CountsKeysWithoutAPlace(t *testing.T) {
	t.Parallel()
	d := New(&rules.Set{Rules: []*rules.Rule{{Name: "topic", Hot: rules.HotCriteria{Rate: 10, Window: time.Second,
		Cooldown: time.Second, ReleaseRatio: 0.7, MaxHot: 5}}}}, Options{})
	add := func(now time.Time, keys int) {
		for i := range keys {
			key := hottype.Key(fmt.Sprintf("topic?id=%d", i))
			d.Add(now, hottype.Count{Key: key, N: int64(100 - i), Second: now.Unix()})
		}
		d.Tick(now)
	}
	add(start, 5)
	if got := d.Full(); got != nil {
		t.Errorf("five keys and five places: %v", got)
	}
	add(start.Add(time.Second), 7)
	if diff := cmp.Diff([]hotset.Full{{Rule: "topic", Places: 5, Unplaced: 2}}, d.Full()); diff != "" ||
		d.Stats().Unplaced != 2 {
		t.Errorf("%s, %+v", diff, d.Stats())
	}
	for i := 2; i < 9; i++ {
		add(start.Add(time.Duration(i)*time.Second), 5)
	}
	if got := d.Full(); got != nil || d.Stats().Unplaced != 0 {
		t.Errorf("they have cooled: %v", got)
	}
}
