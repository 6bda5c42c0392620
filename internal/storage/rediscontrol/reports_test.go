package rediscontrol

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func makeReport(instance string, keys int) report.Limiter {
	r := report.Limiter{Instance: instance, At: now(), Allowed: 1 << 60,
		Denied: report.Denials{hottype.ReasonHot: 3, hottype.ReasonStore: 4}}
	for i := range keys {
		r.Keys = append(r.Keys, report.KeyDecisions{Key: hottype.Key(fmt.Sprintf("topic?id=%d", i)),
			Allowed: uint64(i), Denied: 1})
	}
	return r
}

func testReports(t *testing.T, s server) {
	ctx := context.Background()
	c := s.open(t)
	if got, err := c.ReadReports(ctx); err != nil || got != nil {
		t.Errorf("at first: %v, %v", got, err)
	}
	a, b := makeReport("host-a:1", 3), makeReport("host-b:1", 0)
	for _, r := range []report.Limiter{b, makeReport("host-a:1", 1), a} {
		if err := c.WriteReport(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	s.raw.Set(ctx, c.keys.Report("host-b:1"), "{", time.Second)
	if got, err := c.ReadReports(ctx); err != nil || !cmp.Equal(got, []report.Limiter{a}) ||
		c.Stats().ReportsMalformed != 1 {
		t.Errorf("with a broken one: %v, %v", err, cmp.Diff(got, []report.Limiter{a}))
	}
	if err := c.WriteReport(ctx, b); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReadReports(ctx); err != nil || !cmp.Equal(got, []report.Limiter{a, b}) {
		t.Errorf("%v, %v", err, cmp.Diff(got, []report.Limiter{a, b}))
	}
	if keys := s.immortal(t); keys != nil {
		t.Errorf("keys without expiry: %v", keys)
	}
}

func TestSilentLimitersAreNotAlive(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clock := now()
	c := open(t, s.Addr())
	redisClock := setClock(c, clock)
	ctx := context.Background()
	for i, step := range []struct {
		write string
		live  int
	}{{"a", 1}, {"b", 2}, {"b", 2}, {"b", 2}, {"b", 2}, {"b", 1}, {"a", 2}} {
		err := c.WriteReport(ctx, makeReport(step.write, 0))
		if n := c.limiters.Load(); err != nil || n != int64(step.live) {
			t.Errorf("second %d: %d live, %v; want %d", i, n, err, step.live)
		}
		if list, err := c.ReadReports(ctx); err != nil || len(list) != step.live {
			t.Errorf("second %d: %d reports, %v; want %d", i, len(list), err, step.live)
		}
		clock = clock.Add(time.Second)
		redisClock.Set(clock)
	}
	s.Expire(reportLife + time.Second)
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("left: %v", keys)
	}
}

func TestWriteReport_BoundsTheKeys(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	r := makeReport("a", maxReportKeys+500)
	if err := c.WriteReport(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if len(r.Keys) != maxReportKeys+500 || r.Keys[0].Allowed != 0 {
		t.Error("the caller's report was changed")
	}
	got, err := c.ReadReports(context.Background())
	if err != nil || len(got) != 1 || len(got[0].Keys) != maxReportKeys {
		t.Fatalf("%d reports, %v", len(got), err)
	}
	if first := got[0].Keys[0].Allowed; first != maxReportKeys+499 {
		t.Errorf("the first key has %d decisions; want the busiest", first)
	}
	if n := c.Stats().ReportKeysCut; n != 500 {
		t.Errorf("%d cut", n)
	}
	for limiters, most := range map[int64]int{0: 1000, 1: 1000, 20: 1000, 50: 400, 133: 150, 1000: 150} {
		c.limiters.Store(limiters)
		if err := c.WriteReport(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadReports(context.Background())
		if err != nil || len(got) != 1 || len(got[0].Keys) != most {
			t.Errorf("with %d limiters: %d keys, %v; want %d", limiters, len(got[0].Keys), err, most)
		}
	}
	if err := c.WriteReport(context.Background(), report.Limiter{}); err == nil ||
		!strings.Contains(err.Error(), `instance ""`) {
		t.Errorf("no instance: %v", err)
	}
}

func TestReportersKnowEachOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	reporter := func(name string) *Reporter {
		r := open(t, s.Addr()).Reporter(func(at time.Time) report.Limiter {
			return report.Limiter{Instance: name, At: at}
		})
		if r.Live() != 1 {
			t.Errorf("%s knows of %d before it runs", name, r.Live())
		}
		redistest.Running(t, r.Run)
		return r
	}
	a, b := reporter("a"), reporter("b")
	redistest.Eventually(t, "both know of two", func() bool { return a.Live() == 2 && b.Live() == 2 })
	s.Kill()
	redistest.Eventually(t, "failed reports", func() bool {
		return a.feed.Stats().ReportErrors > 0 && b.feed.Stats().ReportErrors > 0
	})
	if a.Live() != 2 {
		t.Errorf("without Redis %d are alive; the other one still is", a.Live())
	}
}

// BenchmarkReadReports reads the reports that the page of an aggregator reads each second in a large fleet.
func BenchmarkReadReports(b *testing.B) {
	c := open(b, redistest.Start(b).Addr())
	const limiters = 500
	c.limiters.Store(limiters)
	for i := range limiters {
		r := makeReport(fmt.Sprint("limiter-", i), 0)
		for k := range reportKeys(limiters) {
			r.Keys = append(r.Keys, report.KeyDecisions{Key: hottype.Key(fmt.Sprint("topic?id=", 1_000_000+k)),
				Allowed: 123_456, Denied: 7_654_321})
		}
		if err := c.WriteReport(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		c.limiters.Store(limiters)
	}
	keys := 0
	for b.Loop() {
		list, err := c.ReadReports(b.Context())
		if err != nil || len(list) != limiters {
			b.Fatal(len(list), err)
		}
		keys += limiters * len(list[0].Keys)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(keys), "ns/key")
}
