package held

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// countedCosts adds up costs.
type countedCosts struct{ cost, requests atomic.Int64 }

func (c *countedCosts) AddFrom([]byte, int64, int64, hottype.Client) {}

func (c *countedCosts) AddCost(_ []byte, _, cost, requests int64, _ hottype.Client) {
	c.cost.Add(cost)
	c.requests.Add(requests)
}

const reportRules = `
rules:
  - {name: report, match: {path: /report}, params: [filter], cost: time, hot: {rate: 1s},
     limit: {algorithm: in_flight, limit: 1, lease: 1m}}
  - {name: page, match: {path: /page}, params: [id], hot: {rate: 5}}
`

// newRequests returns Requests of a gate for which the value full is hot.
func newRequests(t *testing.T) (*Requests, *countedCosts) {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(reportRules))
	if err != nil {
		t.Fatal(err)
	}
	hot, counted := new(hotset.Replica), &countedCosts{}
	hot.Replace("test", report.HotSet{At: time.Now(), Keys: []hottype.HotKey{{Key: "report?filter=full", Rule: "report",
		Rate: 9e6, Since: time.Now(), Until: time.Now().Add(time.Hour)}}})
	return New(gate.New(gate.Config{Rules: set, Counter: counted, Hot: hot})), counted
}

func full() *hottype.Request {
	return &hottype.Request{Method: "GET", Target: "/report?filter=full"}
}

// promise returns a promise of a gateway for its next request.
func promise(r *Requests, next *uint64) string {
	*next++
	return fmt.Sprintf("%s-%016xffff", r.Secret(), *next)
}

// A request has its slot until its gateway reports its end, once, and costs what the gateway says.
func TestRequests_HoldSlotUntilEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, counted := newRequests(t)
		next := uint64(0)
		v, number := r.Decide(t.Context(), time.Now(), full(), promise(r, &next))
		if !v.Allowed || number == 0 {
			t.Fatalf("%+v, number %d", v, number)
		}
		if v, other := r.Decide(t.Context(), time.Now(), full(), promise(r, &next)); v.Allowed || other != 0 {
			t.Errorf("a second request in flight: %+v, number %d", v, other)
		}
		time.Sleep(300 * time.Millisecond)
		given := costs.NothingGiven
		given.Time = 250 * time.Millisecond
		if !r.End(number, End{Status: 200, Given: given}) || r.End(number, End{Status: 200, Given: given}) ||
			r.End(number+1, End{}) {
			t.Error("a request ends once")
		}
		if st := r.Stats(); counted.cost.Load() != 250_000 || counted.requests.Load() != 1 || st.Held != 0 {
			t.Errorf("%d µs of %d requests counted, %+v", counted.cost.Load(), counted.requests.Load(), st)
		}
		if v, _ := r.Decide(t.Context(), time.Now(), full(), promise(r, &next)); !v.Allowed {
			t.Errorf("after the end: %+v", v)
		}
	})
}

// A gateway that makes no promise, or that a client forges one for, asks as before: nothing is held.
func TestRequests_BelieveOnlySecret(t *testing.T) {
	t.Parallel()
	r, _ := newRequests(t)
	for _, word := range []string{"", "1", "-1", r.Secret(), r.Secret() + "-", r.Secret() + "-x", r.Secret() + "-0",
		r.Secret()[1:] + "-1", r.Secret() + "0-1"} {
		if v, number := r.Decide(t.Context(), time.Now(), full(), word); !v.Allowed || number != 0 {
			t.Errorf("%q: %+v, number %d", word, v, number)
		}
	}
	if n := r.Stats().Refused; n != 9 {
		t.Errorf("%d promises are refused", n)
	}
	page := &hottype.Request{Method: "GET", Target: "/page?id=1"}
	if v, number := r.Decide(t.Context(), time.Now(), page, r.Secret()+"-7"); !v.Allowed || number != 0 {
		t.Errorf("a request without a duty: %+v, number %d", v, number)
	}
}

// A request whose gateway fails ends with the lease of its slot, which may be longer than the time for others. Its cost
// is the mean, however long it was held, because a client chooses how long it sends.
func TestRequests_EndWithTheirLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, counted := newRequests(t)
		next := uint64(0)
		_, number := r.Decide(t.Context(), time.Now(), full(), promise(r, &next))
		given := costs.NothingGiven
		given.Time = 20 * time.Millisecond
		r.End(number, End{Status: 200, Given: given})
		_, number = r.Decide(t.Context(), time.Now(), full(), promise(r, &next))
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if st := r.Stats(); st.Held != 1 || counted.cost.Load() != 20_000 {
			t.Errorf("%+v, %d µs counted", st, counted.cost.Load())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st := r.Stats(); st.Held != 0 || st.Expired != 1 || r.End(number, End{}) || counted.cost.Load() != 40_000 {
			t.Errorf("after the lease: %+v, %d µs counted", st, counted.cost.Load())
		}
		if v, _ := r.Decide(t.Context(), time.Now(), full(), promise(r, &next)); !v.Allowed {
			t.Errorf("after the lease: %+v", v)
		}
	})
}

// A gateway that has given up a question ends its request, also if the limiter decides later. A gateway that asks again
// about a request gives up its first answer.
func TestRequests_EndWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := newRequests(t)
		word := r.Secret() + "-00000000000000070000000000000000"
		if r.End(7, End{}) {
			t.Error("a request ends before it is decided")
		}
		for range 3 {
			if v, number := r.Decide(t.Context(), time.Now(), full(), word); !v.Allowed || number != 7 {
				t.Errorf("%+v, number %d", v, number)
			}
			synctest.Wait()
		}
		if n := r.Stats().Held; n != 0 {
			t.Errorf("%d are held", n)
		}
		time.Sleep(2 * rememberEnds)
		for i := range uint64(maxEnded + 10) {
			r.End(i, End{})
		}
		if len(r.ended) > maxEnded {
			t.Errorf("%d ends are remembered", len(r.ended))
		}
		word = r.Secret() + "-ffff000000000000"
		for range 3 {
			if v, _ := r.Decide(t.Context(), time.Now(), full(), word); !v.Allowed {
				t.Errorf("a question that is asked again: %+v", v)
			}
		}
		if n := r.Stats().Held; n != 1 {
			t.Errorf("%d are held", n)
		}
	})
}

// Requests that are never reported are bounded, and end.
func TestRequests_AreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r Requests
		m := costs.NewMeter(nil)
		work := func() Duties {
			return Duties{Work: m.NewWork(time.Now(), "default", 1, hottype.Client{})}
		}
		for i := range uint64(maxHeld + 5) {
			r.Hold(i, nil, work())
		}
		if n := r.Stats().Held; n != maxHeld {
			t.Errorf("%d are held", n)
		}
		synctest.Wait() // for those that were too many
		r.End(7, End{Given: costs.NothingGiven})
		r.End(7, End{Given: costs.NothingGiven})
		r.Hold(1<<40, &verdict.Lease{Slots: []verdict.Slot{{TTL: time.Second}}}, work())
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if n := r.Stats().Held; r.by[1<<40] != nil || n != maxHeld-1 {
			t.Errorf("%d are held, one after its lease: %v", n, r.by[1<<40])
		}
		time.Sleep(holdFor)
		synctest.Wait()
		if n := r.Stats().Held; n != 0 {
			t.Errorf("%d are held for ever", n)
		}
	})
}

// A gateway that waits less than the limit holds a request back gets a denial, which holds nothing.
func TestRequests_HoldNothingThatDoesNotPass(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("rules.yaml", []byte(`
rules: [{name: page, match: {path: /page}, params: [], hot: {rate: 1},
  limit: {rate: 1, burst: 1, wait: 10s, refund_status: [304]}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	hot := new(hotset.Replica)
	hot.Replace("test", report.HotSet{At: time.Now(), Keys: []hottype.HotKey{{Key: "page", Rule: "page",
		Rate: 9, Since: time.Now(), Until: time.Now().Add(time.Hour)}}})
	r := New(gate.New(gate.Config{Rules: set, Hot: hot}))
	now := time.Now()
	if v, number := r.DecideReported(t.Context(), now, &hottype.Request{Target: "/page"}); !v.Allowed || number == 0 {
		t.Errorf("the first: %+v, number %d", v, number)
	}
	if v, number := r.DecideReported(t.Context(), now, &hottype.Request{Target: "/page"}); v.Allowed || number != 0 ||
		v.RetryAfter <= 0 {
		t.Errorf("one that would wait: %+v, number %d", v, number)
	}
}
