package redislimits

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// aRequest returns the charges of a request: a hot key's bucket and both windows of its client.
func aRequest() ([]limit.Charge, []limit.Result) {
	client := hottype.ClientFromAddr(netip.MustParseAddr("2001:db8::7"))
	charges := []limit.Charge{
		{Subject: limit.Subject{Space: "hot", Name: "topic?id=42"},
			Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 3, Window: 900 * time.Millisecond, Burst: 3},
			Cost: 1},
		{Subject: limit.Subject{Space: "ip_fixed", Client: client},
			Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: 50, Window: time.Hour}, Cost: 1},
		{Subject: limit.Subject{Space: "ip_sliding", Client: client},
			Spec: limit.Spec{Algorithm: limit.SlidingWindow, Limit: 100, Window: time.Hour}, Cost: 1},
	}
	return charges, make([]limit.Result, len(charges))
}

// By the server's own clock a denial ends at the stated time, and every key expires when it no longer counts.
func TestLimiter_DenialEndsByServerClock(t *testing.T) {
	t.Parallel()
	l, ctx := openLimiter(t, redistest.Start(t).Addr()), context.Background()
	charges, results := aRequest()
	start, began := time.Now(), time.Time{}
	for i, admitted := 0, true; admitted; i++ { // a slow machine has tokens back meanwhile
		var err error
		began = time.Now()
		if admitted, err = l.Take(ctx, time.Time{}, charges, results); err != nil || !admitted && i < 3 {
			t.Fatalf("call %d: %v, %v", i, admitted, err)
		}
	}
	if r := results[0]; r.RetryAfter <= 0 || r.RetryAfter > 300*time.Millisecond {
		t.Fatalf("bucket empty: %+v", r)
	}
	expires(t, l, charges, results, start, began)
	<-time.After(results[0].RetryAfter)
	if admitted, err := l.Take(ctx, time.Time{}, charges, results); err != nil || !admitted {
		t.Errorf("after the time it said: %v, %v: %+v", admitted, err, results)
	}
}

// A decision is one command, and one more when the server has lost the script.
func TestLimiter_DecidesInOneCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l, ctx := openLimiter(t, s.Addr()), context.Background()
	charges, results := aRequest()
	for range 5 {
		if _, err := l.Take(ctx, time.Time{}, charges, results); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Client().ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Take(ctx, time.Time{}, charges, results); err != nil {
		t.Errorf("after SCRIPT FLUSH: %v", err)
	}
	stats := s.Client().Info(ctx, "commandstats").Val()
	for _, want := range []string{"cmdstat_evalsha:calls=6,", "cmdstat_eval:calls=2,"} {
		if !strings.Contains(stats, want) {
			t.Errorf("6 decisions and a flush: no %q in\n%s", want, stats)
		}
	}
}

// A server that hangs, is away or holds wrong data is an error in time, and the limiter works again when the server
// does.
func TestLimiter_ReportsServerFailuresAndRecovers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l, ctx := openLimiter(t, s.Addr()), context.Background()
	charges, results := aRequest()
	// take wants an error that matches a pattern, or no error for "".
	take := func(want string) {
		t.Helper()
		budget := 200 * time.Millisecond
		if want == "" {
			budget = time.Minute
		}
		within, cancel := context.WithTimeout(ctx, budget)
		defer cancel()
		began := time.Now()
		_, err := l.Take(within, time.Time{}, charges, results)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("%s: took %v", want, d)
		}
		failed := regexp.MustCompile("^redislimits: take hot, ip_fixed, ip_sliding: .*(" + want + ")")
		if want == "" && err != nil || want != "" && (err == nil || !failed.MatchString(err.Error())) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	key := l.keys.limitState(&charges[2].Subject)
	s.Client().LPush(ctx, key, "not a string")
	take("")
	if results[2].Remaining != 99 {
		t.Errorf("a key that is no string counts as none: %+v", results[2])
	}
	s.Client().Set(ctx, key, "what is this", time.Minute)
	take("")
	if results[2].Remaining != 99 {
		t.Errorf("nonsense counts as none: %+v", results[2])
	}
	s.Freeze()
	take("timeout")
	s.Thaw()
	take("")
	s.Kill()
	take("refused|EOF|reset") // the last two where the call finds the end of its connection first
	s.Relaunch()
	take("")
}

// On a cluster all charges of a namespace meet on one node.
func TestLimiterOnCluster_ChargesMeet(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := openWith(t, redisclient.Config{Addrs: cluster.Addrs(), Namespace: "test", Timeout: 10 * time.Second})
	charges, results := aRequest()
	charges[0].Spec.Window = time.Hour // three, however slow the machine
	for i := range 4 {
		if admitted, err := c.Take(t.Context(), time.Time{}, charges, results); err != nil || admitted != (i < 3) {
			t.Fatalf("call %d: %v, %v", i, admitted, err)
		}
	}
}

func TestReadDecision_RejectsImpossibleReplies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reply any
		want  string
	}{
		{[]any{int64(1), int64(1), int64(9), int64(0), int64(5), int64(77)}, "true {true 0 9 0s 5µs 0s} <nil>"},
		{[]any{int64(0), int64(0), int64(9), int64(-1), int64(0), int64(77)}, "false {false 0 9 -1ns 0s 0s} <nil>"},
		{[]any{int64(0), int64(0), int64(0), int64(7), int64(7), int64(77)}, "false {false 0 0 7µs 7µs 0s} <nil>"},
		{nil, "error"},
		{"OK", "error"},
		{[]any{int64(1)}, "error"},
		{[]any{int64(1), int64(1), int64(9), int64(0), int64(5)}, "error"},
		{[]any{int64(1), int64(1), int64(9), int64(0), int64(5), int64(-1)}, "error"},
		{[]any{int64(1), int64(1), int64(9), int64(0)}, "error"},
		{[]any{int64(1), int64(1), "9", int64(0), int64(5), int64(77)}, "error"},
		{[]any{int64(1), nil, int64(9), int64(0), int64(5), int64(77)}, "error"},
		{[]any{int64(1), int64(1), int64(-9), int64(0), int64(5), int64(77)}, "error"},
		{[]any{int64(1), int64(1), int64(9), int64(-2), int64(5), int64(77)}, "error"},
	} {
		results := make([]limit.Result, 1)
		admitted, at, err := readDecision(c.reply, results)
		got := fmt.Sprint(admitted, " ", results[0], " ", err)
		if err == nil && at != 77 {
			t.Errorf("%v: judged at %d", c.reply, at)
		}
		if (c.want == "error") != (err != nil) || (err == nil && got != c.want) {
			t.Errorf("%v: %s, want %s", c.reply, got, c.want)
		}
	}
}

// Neither a server that loses the script again and again, nor a key that is not a string, fails the charges of other
// keys.
func TestLimiter_SurvivesLostScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l, ctx := openLimiter(t, s.Addr()), context.Background()
	charges, results := aRequest()
	start, began := time.Now(), time.Time{}
	s.Client().LPush(ctx, l.keys.limitState(&charges[1].Subject), "not a string")
	for i := range 3 {
		if err := s.Client().ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		admitted, err := l.Take(ctx, time.Time{}, charges, results)
		if err != nil || !admitted || results[1].Remaining != int64(49-i) {
			t.Errorf("call %d: %v, %v: %+v", i, admitted, err, results)
		}
	}
	expires(t, l, charges, results, start, began)
}

// expires checks that keys expire when they no longer count. The first call began at start, the last one at began. A
// script may be delayed between the time that it reads and the expiry that it sets.
func expires(t *testing.T, l *shardLimiter, charges []limit.Charge, results []limit.Result, start, began time.Time) {
	t.Helper()
	for i := range charges {
		life, err := l.rdb.PTTL(t.Context(), l.keys.limitState(&charges[i].Subject)).Result()
		most := results[i].ResetAfter + time.Since(start) + 3*time.Millisecond
		if charges[i].Spec.Algorithm == limit.TokenBucket {
			most += time.Second
		}
		if reset := results[i].ResetAfter; err != nil || life < reset-time.Since(began)-time.Millisecond ||
			life > most {
			t.Errorf("%+v expires in %v, whole in %v; %v", charges[i].Subject, life, reset, err)
		}
	}
}
