package rediscontrol

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// absurdVersions are never written by programs of this project: numbers to which adding 1 changes nothing, that are far
// ahead of the clock or negative, and texts.
var absurdVersions = []string{"9223372036854775807", "9007199254740993", "99999999999999999999", "1e300", "-5", "abc",
	"inf", "nan"}

// A version of another writer is replaced: later hot sets and overrides reach the limiters.
func TestAbsurdVersions_AreWrittenAnew(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := context.Background()
	for i, version := range absurdVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			open := func() *Feed {
				return openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: fmt.Sprint("absurd", i)})
			}
			aggregator, limiter := open(), open()
			k := aggregator.keys
			p := aggregator.Publisher("a")
			publish(t, p, hot(now(), 1))
			put(t, aggregator.Overrides(), block("first", "topic?id=1", "ann"))
			sets, _ := follow(t, limiter)
			overrides := followOverrides(t, limiter)
			redistest.Next(t, sets, "the first set")
			redistest.Next(t, overrides, "the first override")
			for _, key := range []string{k.HotVersion(), k.OverrideVersion()} {
				if err := s.Client().Set(ctx, key, version, time.Hour).Err(); err != nil {
					t.Fatal(err)
				}
			}
			publish(t, p, hot(now(), 2))
			if d := redistest.Next(t, sets, "the set after it"); len(d.set.Keys) != 2 {
				t.Errorf("%d keys", len(d.set.Keys))
			}
			redistest.Eventually(t, "an override that is put after it", func() bool {
				_, err := aggregator.Overrides().Put(ctx, block("second", "topic?id=2", "ann"))
				return err == nil
			})
			for {
				if all := redistest.Next(t, overrides, "both overrides"); len(all) == 2 {
					break
				}
			}
			latest := time.Now().Add(maxAhead)
			if v, _ := s.Client().Get(ctx, k.HotVersion()).Int64(); v <= 0 || v > latest.UnixMilli() {
				t.Errorf("the version of hot sets is %d", v)
			}
			if v, _ := s.Client().Get(ctx, k.OverrideVersion()).Int64(); v <= 0 || v > latest.UnixMicro() {
				t.Errorf("the version of overrides is %d", v)
			}
		})
	}
}

// A set of another writer whose numbers, times or size are absurd is rejected and counted, and the sets of others
// count.
func TestAbsurdSets_AreRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, c := context.Background(), open(t, s.Addr())
	at, year2058 := time.Now(), time.Date(2058, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	line := func(rate string, until int64, more string) string {
		return fmt.Sprintf("topic?id=9\ttopic\t%s\t1\t%d\t%d%s\n", rate, at.UnixMicro(), until, more)
	}
	soon := at.Add(time.Minute).UnixMicro()
	bodies := map[string]string{
		"rate": line("1e300", soon, ""), "until": line("1", year2058, ""), "clients": line("1", soon, "\tclients=-1"),
		"upper": line("1", soon, "\tupper=1e17"), "loop": line("1", 0, fmt.Sprintf("\tloop=%d", year2058)),
		"keys": strings.Repeat(line("1", soon, ""), maxLines+1),
		"size": strings.Repeat("x", bodyMax+1),
	}
	put := func(publisher, body string, version uint64) {
		s.Client().HSet(ctx, c.keys.HotSet(publisher), "epoch", 1, "seq", 1, "version", version, "base", version,
			"at", at.UnixMicro(), "encoding", encodingWhole, "body", body)
		s.Client().HSet(ctx, c.keys.HotIndex(), publisher, fmt.Sprintf("%d %d", version, at.Add(time.Hour).UnixMilli()))
	}
	for name, body := range bodies {
		put(name, body, uint64(at.UnixMilli()))
	}
	put("version", line("1", soon, ""), 1<<63-1)
	put("ours", line("5", soon, ""), uint64(at.UnixMilli()))
	sets, _ := follow(t, c)
	if d := redistest.Next(t, sets, "the set that is right"); d.publisher != "ours" || len(d.set.Keys) != 1 {
		t.Errorf("%s: %d keys", d.publisher, len(d.set.Keys))
	}
	redistest.None(t, sets, pollEvery+pollEvery/2, "set that is absurd")
	if got := c.hot.read().Malformed; got < uint64(len(bodies))+1 {
		t.Errorf("%d are counted, of %d", got, len(bodies)+1)
	}
}
