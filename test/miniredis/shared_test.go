package miniredis_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
)

// hot returns a set of n keys, judged now.
func hot(n int) report.HotSet {
	at := time.Now().UTC().Truncate(time.Microsecond)
	set := report.HotSet{At: at}
	for i := range n {
		set.Keys = append(set.Keys, hottype.HotKey{
			Key: hottype.Key(fmt.Sprintf("topic?id=%x", i*i*7919)), Rule: "topic", Rate: 200, PeakRate: 300, Since: at,
			Until: at.Add(time.Minute),
		})
	}
	return set
}

// A follower has the published set, whether it was published as a whole or as a change, and all later ones.
func TestFollower_ReceivesEachHotSet(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	publisher, sets := rediscontrol.New(connect(t, m)).Publisher("agg"), make(chan report.HotSet, 100)
	publish := func(set report.HotSet) {
		t.Helper()
		if err := publisher.Publish(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	publish(hot(2))
	ctx, stop := context.WithCancel(context.Background())
	follower, done := rediscontrol.New(connect(t, m)), make(chan error, 1)
	go func() {
		done <- follower.Follow(ctx, func(_ string, set report.HotSet) { sets <- set })
	}()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for _, n := range []int{2, 3000, 2999, 2998, 0} { // large ones travel as changes
		if n != 2 {
			publish(hot(n))
		}
		select {
		case set := <-sets:
			if len(set.Keys) != n {
				t.Errorf("%d keys, want %d", len(set.Keys), n)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no set of %d keys", n)
		}
	}
	if st := follower.Stats().Hot; st.Whole == 0 || st.Whole == 5 {
		t.Errorf("%+v", st)
	}
}

// Overrides are stored with their history, and a deleted one is removed.
func TestOverrides_KeepTheirHistory(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), rediscontrol.New(connect(t, miniredis.RunT(t))).Overrides()
	for _, id := range []string{"a", "b", "a"} {
		o := rules.Override{ID: id, Key: "topic?id=" + id, Action: rules.ActionBlock, Author: "ann"}
		if _, err := store.Put(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Delete(ctx, "a", "bob"); err != nil {
		t.Fatal(err)
	}
	live, err := store.Live(ctx)
	if list := rules.SortedOverrides(live); err != nil || len(list) != 1 || list[0].ID != "b" {
		t.Errorf("%+v, %v", list, err)
	}
	audit, err := store.Audit(ctx, 10)
	if err != nil || len(audit) != 4 || audit[0].Author != "bob" || audit[0].Action != rules.ChangeDelete {
		t.Errorf("%+v, %v", audit, err)
	}
}

// Reports are read back, and a process with a recent report is alive.
func TestReports_AreReadBack(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, now := rediscontrol.New(connect(t, m)), time.Now()
	m.SetTime(now)
	for i, name := range []string{"a", "b"} {
		if err := c.WriteReport(t.Context(), report.Limiter{Instance: name, At: now,
			Allowed: uint64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	reports, err := c.ReadReports(t.Context())
	slices.SortFunc(reports, func(a, b report.Limiter) int { return int(a.Allowed) - int(b.Allowed) })
	if err != nil || len(reports) != 2 || reports[0].Instance != "a" || reports[1].Instance != "b" {
		t.Errorf("%+v, %v", reports, err)
	}
}
