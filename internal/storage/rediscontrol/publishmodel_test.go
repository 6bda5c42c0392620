package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// world holds some publishers, a Redis and a follower on one clock, and the keys that should be hot.
type world struct {
	redis    *redistest.Clock
	c        *Feed
	clock    time.Time
	procs    map[string][]*process // by id: two that share it
	follower *hotFollower
	mirror   *hotset.Replica
	seen     map[string]report.HotSet // latest, at the last poll
	last     map[string]uint64        // version of each publisher that the follower had
	latest   map[string]report.HotSet // that Redis took, by id
}

// process is an aggregator.
type process struct {
	p      *Publisher
	judged report.HotSet // before it was frozen, if it has At
}

// TestFollowersSeeTheRightfulOwners draws publishers that share ids, take over, freeze, wake up with a set that they
// judged before, and restart; a Redis that loses everything, or fails over to an older state; and a follower that polls
// from time to time. When it polls, it has the union of the latest accepted sets, and no key of a rejected one.
func TestFollowersSeeTheRightfulOwners(t *testing.T) {
	t.Parallel()
	// A machine that stops for seconds makes an answer late and not wrong.
	c := openWith(t, redisclient.Config{Addrs: []string{redistest.Start(t).Addr()}, Namespace: "test",
		Timeout: time.Minute})
	redistest.Eventually(t, "an answer of the server",
		func() bool { return c.rdb.Ping(context.Background()).Err() == nil })
	redis := setClock(c, time.Time{})
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, redis, c)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id")
			i := rapid.IntRange(0, 1).Draw(t, "process")
			switch what := rapid.SampledFrom([]string{"publish", "publish", "publish", "publish", "again", "freeze",
				"restart", "release", "flush", "pass", "poll", "poll"}).Draw(t, "what"); what {
			case "publish":
				w.publish(t, id, w.procs[id][i], w.judge(t, id, i))
			case "again": // the answer was lost, or it wakes up
				if p := w.procs[id][i]; !p.judged.At.IsZero() {
					w.publish(t, id, p, p.judged)
				}
			case "freeze":
				w.procs[id][i].judged = w.judge(t, id, i)
			case "restart":
				w.procs[id][i] = w.start(id)
			case "release":
				if err := w.procs[id][i].p.Release(context.Background()); err != nil {
					t.Fatal(err)
				}
			case "flush":
				w.flush(t) // sets that the follower did not see are lost
				w.latest = maps.Clone(w.seen)
			case "pass":
				w.pass(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			case "poll":
				w.poll(t)
			}
		}
		w.pass(defaultLease)
		for id, p := range w.procs { // if one of two is silent, the other continues
			w.publish(t, id, p[0], w.judge(t, id, 0))
		}
		w.poll(t)
	})
}

// flush makes Redis forget everything.
func (w *world) flush(t *rapid.T) {
	if err := w.c.rdb.FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *rapid.T, redis *redistest.Clock, c *Feed) *world {
	w := &world{
		redis: redis, c: c, clock: time.Unix(1_800_000_000, 0).UTC(), mirror: &hotset.Replica{NoInputTTL: -1},
		last: map[string]uint64{}, seen: map[string]report.HotSet{}, latest: map[string]report.HotSet{},
	}
	w.flush(t)
	redis.Set(w.clock)
	c.now = func() time.Time { return w.clock }
	w.procs = map[string][]*process{}
	for _, id := range []string{"a", "b"} {
		w.procs[id] = []*process{w.start(id), w.start(id)}
	}
	w.follower = &hotFollower{feed: c, fn: w.deliver, seen: map[string]seenSet{}}
	return w
}

func (w *world) start(id string) *process { return &process{p: w.c.Publisher(id)} }

func (w *world) pass(d time.Duration) {
	w.clock = w.clock.Add(d)
	w.redis.Set(w.clock)
}

// judge returns the set of a process: small or, by long keys, large. The keys contain the process that judged.
func (w *world) judge(t *rapid.T, id string, i int) report.HotSet {
	set := report.HotSet{At: w.clock, NoInput: rapid.Bool().Draw(t, "no input")}
	set.Last = !set.NoInput && rapid.IntRange(0, 4).Draw(t, "last") == 0
	name := ""
	if rapid.Bool().Draw(t, "large") {
		name = strings.Repeat("x", 6000)
	}
	for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 6, rapid.ID).Draw(t, "keys") {
		set.Keys = append(set.Keys, hottype.HotKey{
			Key: hottype.Key(fmt.Sprintf("%s%d%s?id=%d", id, i, name, k)), Rule: "topic", Rate: float64(k),
			Since: w.clock, Until: w.clock.Add(5 * time.Second),
		})
	}
	return set
}

func (w *world) publish(t *rapid.T, id string, p *process, set report.HotSet) {
	err := p.p.Publish(context.Background(), set)
	w.pass(2 * time.Millisecond) // versions are milliseconds where there is time for one
	switch {
	case err == nil:
		w.latest[id] = set
	case !errors.Is(err, ErrFenced):
		t.Fatal(err)
	}
}

func (w *world) deliver(publisher string, set report.HotSet) {
	if set.Version <= w.last[publisher] {
		panic(fmt.Sprintf("%s: version %d after %d", publisher, set.Version, w.last[publisher]))
	}
	if latest := w.latest[publisher]; set.NoInput != latest.NoInput || set.Last != latest.Last {
		panic(fmt.Sprintf("%s: no input %v, last %v", publisher, set.NoInput, set.Last))
	}
	w.last[publisher] = set.Version
	w.mirror.Replace(publisher, set)
}

// poll makes the follower poll once, which is enough, because nothing changes meanwhile.
func (w *world) poll(t *rapid.T) {
	if _, err := w.follower.sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.seen = maps.Clone(w.latest)
	want, got := map[hottype.Key]time.Time{}, map[hottype.Key]time.Time{}
	for _, set := range maps.All(w.latest) {
		for _, h := range set.Keys {
			if h.Until.After(w.clock) {
				want[h.Key] = h.Until
			}
		}
	}
	for _, e := range w.mirror.Entries(w.clock) {
		got[e.Key()] = e.Hot().Until
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-rightful +mirror\n%s", diff)
	}
}
