package rediscontrol

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// stored reads a set as a new reader does.
func stored(t *testing.T, c *Feed, id string) report.HotSet {
	t.Helper()
	var answer func() (heldSet, error)
	_, err := c.rdb.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		answer = c.askWhole(context.Background(), p, id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	held, err := answer()
	if err != nil {
		t.Fatal(err)
	}
	return held.withSortedLists()
}

// script makes the calls of a publisher "a" as they would be on the wire: token claims the id, then body is published.
func script(t *testing.T, c *Feed, channel, token string, seq int64, body []byte) []int64 {
	t.Helper()
	ctx := context.Background()
	claim, err := claimHot.Run(ctx, c.rdb, []string{c.keys.HotEpoch("a")}, token, 0, 60_000, 60_000).
		Int64Slice()
	if err != nil || claim[0] != 1 {
		t.Fatal(claim, err)
	}
	return call(t, c, channel, token, seq, body)
}

func call(t *testing.T, c *Feed, channel, token string, seq int64, body []byte) []int64 {
	t.Helper()
	k := c.keys
	reply, err := publishHot.Run(context.Background(), c.rdb,
		[]string{k.HotVersion(), k.HotIndex(), k.HotSet("a"), k.HotEpoch("a"), k.HotLog("a")},
		"a", token, seq, 0, 0, "", 1, encodingWhole, body, 0, 60_000, 60_000, 60_000, 60_000, channel,
	).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// standby expects the publication to be rejected because another process has the id.
func standby(t *testing.T, what string, p *Publisher) *StandbyError {
	t.Helper()
	err := p.Publish(context.Background(), hot(now(), 5))
	var rejected *StandbyError
	if !errors.As(err, &rejected) || !errors.Is(err, ErrFenced) || rejected.ID != p.cfg.ID {
		t.Fatalf("%s: %v; want to stand by", what, err)
	}
	return rejected
}

func testOldProcessIsFenced(t *testing.T, s server) {
	c := s.open(t)
	ctx := context.Background()
	lease := PublisherConfig{ID: "agg", Lease: 2 * time.Second}               // longer than a busy machine pauses
	frozen, successor := c.NewPublisher(lease), s.open(t).NewPublisher(lease) // the same id in two processes
	publish(t, frozen, hot(now(), 5))
	if left := standby(t, "the second process", successor).Left; left <= 0 || left > lease.Lease {
		t.Errorf("%v left of a lease of %v", left, lease.Lease)
	}
	redistest.Eventually(t, "taken over", func() bool { return successor.Publish(ctx, hot(now(), 1)) == nil })
	standby(t, "the one that wakes up", frozen)
	standby(t, "and asks again", frozen)
	if n := len(stored(t, c, "agg").Keys); n != 1 {
		t.Errorf("%d keys; the set of the old process came back", n)
	}
	if err := successor.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := frozen.Release(ctx); err != nil { // it has nothing to give back
		t.Error(err)
	}
	publish(t, frozen, hot(now(), 3))
	standby(t, "who gave it back", successor)
	// Redis loses everything: the owner publishes again at once.
	before := frozen.Version()
	s.raw.Del(ctx, c.keys.HotEpoch("agg"), c.keys.HotSet("agg"), c.keys.HotIndex(), c.keys.HotVersion())
	publish(t, frozen, hot(now(), 2))
	if frozen.Version() <= before {
		t.Errorf("version %d after %d", frozen.Version(), before)
	}
	standby(t, "the other one after the loss", successor)
	if got := c.Stats(); got.Fenced != 2 || got.Published != 3 || got.Takeovers != 3 || !got.Publishing {
		t.Errorf("%+v", got)
	}
}

// Calls of a dead process may reach Redis after its successor's: here they are made with the arguments that they would
// have had.
func testLateCallsUndoNothing(t *testing.T, s server) {
	c := s.open(t)
	ctx := context.Background()
	code := func(what string, want int64, reply []int64) int64 {
		t.Helper()
		if reply[0] != want {
			t.Errorf("%s: code %d; want %d", what, reply[0], want)
		}
		return reply[2]
	}
	send := func(token string, seq int64) []int64 {
		return call(t, c, c.keys.HotNotice(), token, seq, []byte(token))
	}
	code("before anybody owns the id", fenced, send("old", 1))
	// The first call of old timed out and its second one was taken.
	old := code("take", published, script(t, c, c.keys.HotNotice(), "old", 2, []byte("old")))
	code("first call, late", late, send("old", 1))
	code("answer was lost, call again", published, send("old", 3))
	code("next", published, send("old", 4))
	code("late", late, send("old", 3))
	if owner := c.rdb.Get(ctx, c.keys.HotEpoch("a")).
		Val(); !strings.HasPrefix(owner, strconv.FormatInt(old, 10)+" old ") {
		t.Errorf("owner %q", owner)
	}
	claim := func(token string, lease int64) []int64 {
		t.Helper()
		reply, err := claimHot.Run(ctx, c.rdb, []string{c.keys.HotEpoch("a")}, token, 0, lease, 60_000).
			Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	if reply := claim("new", 1000); reply[0] != 0 || reply[1] != old || reply[2] <= 0 || reply[2] > 60_000 {
		t.Errorf("claimed during the lease: %v", reply)
	}
	claim("new", 0) // releases an id of another process
	code("still the owner", published, send("old", 5))
	claim("old", 0)
	young := code("take over", published, script(t, c, c.keys.HotNotice(), "new", 1, []byte("new")))
	if young <= old {
		t.Errorf("epoch %d after %d", young, old)
	}
	code("fenced", fenced, send("old", 6))
	if body := c.rdb.HGet(ctx, c.keys.HotSet("a"), "body").Val(); body != "new" {
		t.Errorf("the set is that of %q", body)
	}
	// A lease that ends in an hour was written by another clock: it is over.
	far := strconv.FormatInt(young, 10) + " new " + strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	c.rdb.Set(ctx, c.keys.HotEpoch("a"), far, time.Minute)
	if reply := claim("next", 1000); reply[0] != 1 || reply[1] <= young {
		t.Errorf("claimed from another clock: %v", reply)
	}
}
