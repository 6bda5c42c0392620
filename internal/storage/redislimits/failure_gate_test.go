package redislimits

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

const policies = `
rules:
  - {name: local, match: {path: /local}, params: [id], hot: {rate: 10}, limit: {rate: 1000, burst: 1000, on_store_failure: local}}
  - {name: open, match: {path: /open}, params: [id], hot: {rate: 10}, limit: {rate: 1000, burst: 1000, on_store_failure: open}}
  - {name: closed, match: {path: /closed}, params: [id], hot: {rate: 10}, limit: {rate: 1000, burst: 1000, on_store_failure: closed}}
`

const (
	// budget is long compared with the time of a healthy answer on a busy machine, and slack is the time that such a
	// machine may add to a verdict.
	budget = 250 * time.Millisecond
	slack  = 2 * time.Second
)

// failing is a gate with a real client, before a Redis that fails on demand.
type failing struct {
	*gate.Gate
	front *redistest.FaultProxy
	log   *redistest.Log
}

func newFailing(t *testing.T) *failing {
	t.Helper()
	f := &failing{front: redistest.StartFaultProxy(t, redistest.Start(t).Addr()), log: new(redistest.Log)}
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{f.front.Addr()}})
	redistest.MustOpen(t, c, err)
	set, err := rules.Parse("test.yaml", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	mirror, now := new(hotset.Replica), time.Now()
	hot := report.HotSet{Version: 1, At: now}
	for _, rule := range []string{"local", "open", "closed"} {
		hot.Keys = append(hot.Keys, hottype.HotKey{Key: hottype.Key(rule + "?id=1"), Rule: rule, Rate: 100, Since: now,
			Until: now.Add(time.Hour)})
	}
	mirror.Replace("test", hot)
	f.Gate = gate.New(gate.Config{
		Rules: set, Hot: mirror, Shared: New(c), Budget: budget, Limiters: func() int { return 4 },
		Log: f.log.Logger(),
	})
	return f
}

// ask makes one decision, which must come in time.
func (f *failing) ask(t *testing.T, rule string) hottype.Verdict {
	t.Helper()
	began := time.Now()
	v := f.Decide(context.Background(), began, &hottype.Request{
		Method: http.MethodGet, Host: "news.example", Target: "/" + rule + "?id=1", Header: http.Header{},
	})
	if took := time.Since(began); took > budget+slack {
		t.Errorf("%s: the verdict took %v", rule, took)
	}
	return v
}

// byRedis asks until Redis decides, which must happen soon.
func (f *failing) byRedis(t *testing.T, what string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(10 * time.Second)
	for f.ask(t, "open").Reason != hottype.ReasonHot {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not healed\n%s", what, f.log)
		}
	}
}

// However a server fails to answer, the verdict comes by the rule's policy, the breaker opens after five failures and
// logs it once, and Redis decides again when the server is healthy, without a restart.
func TestGate_FollowsPolicyHoweverRedisFails(t *testing.T) {
	t.Parallel()
	for name, manner := range map[string]redistest.Fault{
		"NOSCRIPT for the text too": redistest.FixedReply("-NOSCRIPT No matching script. Please use EVAL.\r\n"),
		"READONLY":                  redistest.FixedReply("-READONLY You can't write against a read only replica.\r\n"),
		"MOVED":                     redistest.FixedReply("-MOVED 3999 127.0.0.1:1\r\n"),
		"ASK":                       redistest.FixedReply("-ASK 3999 127.0.0.1:1\r\n"),
		"BUSY": redistest.FixedReply(
			"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"),
		"OOM":         redistest.FixedReply("-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
		"LOADING":     redistest.FixedReply("-LOADING Redis is loading the dataset in memory\r\n"),
		"CLUSTERDOWN": redistest.FixedReply("-CLUSTERDOWN Hash slot not served\r\n"),
		"TRYAGAIN":    redistest.FixedReply("-TRYAGAIN Multiple keys request during rehashing of slot\r\n"),
		"MASTERDOWN": redistest.FixedReply(
			"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"),
		"NOAUTH":                redistest.FixedReply("-NOAUTH Authentication required.\r\n"),
		"max clients":           redistest.FixedReply("-ERR max number of clients reached\r\n"),
		"garbage":               redistest.FixedReply("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a number that is none": redistest.FixedReply(":one\r\n"),
		"a length that is none": redistest.FixedReply("*-2\r\n"),
		"too few numbers":       redistest.FixedReply("*1\r\n:1\r\n"),
		"numbers out of range":  redistest.FixedReply("*6\r\n:1\r\n:1\r\n:-7\r\n:0\r\n:0\r\n:1\r\n"),
		"words":                 redistest.FixedReply("*6\r\n+a\r\n+b\r\n+c\r\n+d\r\n+e\r\n+f\r\n"),
		"nothing there":         redistest.FixedReply("$-1\r\n"),
		"closed at once":        redistest.CutAfter(0),
		"closed in the middle":  redistest.CutAfter(3),
		"silence":               redistest.Silent,
		"a slow dribble":        redistest.SlowReply(100 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailing(t)
			f.byRedis(t, "at first")
			before := f.Stats()
			f.front.Set(manner)
			for i := range 4 {
				if v := f.ask(t, "open"); !v.Allowed || v.Reason != hottype.ReasonStore || v.Rule != "open" {
					t.Fatalf("open, %d: %+v", i, v)
				}
			}
			if v := f.ask(t, "closed"); v.Allowed || v.Reason != hottype.ReasonStore || v.RetryAfter != time.Second {
				t.Errorf("closed: %+v", v)
			}
			if v := f.ask(t, "local"); !v.Allowed || v.Reason != hottype.ReasonHot || v.Limit != 250 {
				t.Errorf("local: %+v", v)
			}
			if s := f.Stats(); s.StoreOpened != 1 || !s.StoreOpen || s.StoreErrors-before.StoreErrors < 5 {
				t.Errorf("%+v", s)
			}
			f.front.Set(nil)
			f.byRedis(t, "after it")
			if v := f.ask(t, "local"); v.Limit != 1000 {
				t.Errorf("local, after it: %+v", v)
			}
			if s := f.Stats(); s.StoreOpened != 1 || s.StoreClosed != 1 || s.StoreOpen {
				t.Errorf("%+v", s)
			}
			if n := strings.Count(f.log.String(), "\n"); n != 2 {
				t.Errorf("%d lines, want one each way:\n%s", n, f.log)
			}
		})
	}
}
