package forwardauth

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// A check that repeats another one within a second is charged only if its id, target or client differs, or if too many
// checks repeat it.
func TestHandler_ChargesRepeatsOnce(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	now := start
	h, g := newHandler(t, Config{Dialect: Nginx, RequestID: "x-request-id", Now: func() time.Time { return now }})
	for i, step := range []struct {
		at         time.Duration
		id, target string
		client     string
		charged    bool
	}{
		{0, "a", "/topic?id=hot", "192.0.2.7", true},
		{1 * time.Millisecond, "a", "/topic?id=hot", "192.0.2.7", false},
		{1 * time.Millisecond, "b", "/topic?id=hot", "192.0.2.7", true},
		{1 * time.Millisecond, "a", "/topic?id=1", "192.0.2.7", true},
		{1 * time.Millisecond, "a", "/topic?id=hot", "192.0.2.8", true},
		{1 * time.Millisecond, "", "/topic?id=hot", "192.0.2.7", true},
		{1 * time.Millisecond, "", "/topic?id=hot", "192.0.2.7", true},
		{999 * time.Millisecond, "a", "/topic?id=hot", "192.0.2.7", false},
		{1000 * time.Millisecond, "a", "/topic?id=hot", "192.0.2.7", true},
		{1900 * time.Millisecond, "a", "/topic?id=hot", "192.0.2.7", false},
		{1900 * time.Millisecond, "a", "/topic?id=hot", "192.0.2.7", false},
		{1900 * time.Millisecond, "a", "/topic?id=hot", "192.0.2.7", false},
		{1900 * time.Millisecond, "a", "/topic?id=hot", "192.0.2.7", true}, // a client that chooses its ids
	} {
		now = start.Add(step.at)
		before := len(g.asked)
		r := checkOf("GET", "/check", "X-Original-URI: "+step.target, "X-Original-Method: GET",
			"X-Original-Host: news.example", "X-Real-IP: "+step.client)
		if step.id != "" {
			r.Header.Set("X-Request-ID", step.id)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if charged := len(g.asked) > before; charged != step.charged {
			t.Errorf("step %d: charged %v", i, charged)
		}
		if want := map[bool]int{true: 403, false: 200}[step.target == "/topic?id=hot"]; w.Code != want {
			t.Errorf("step %d: %d, want %d", i, w.Code, want)
		}
	}
	if st := h.Stats(); st.Repeated != 5 || st.Checks != 13 {
		t.Errorf("%+v", st)
	}
}

// If a check has two request ids, neither is believed.
func TestHandler_IgnoresTwoRequestIDs(t *testing.T) {
	t.Parallel()
	h, g := newHandler(t, Config{Dialect: Nginx, RequestID: "X-Request-ID"})
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), described(Nginx, "/topic", "X-Request-ID: mine", "X-Request-ID: theirs"))
	}
	if len(g.asked) != 2 {
		t.Errorf("asked %d times", len(g.asked))
	}
}

func TestDedup_WaitsForTheFirstCheck(t *testing.T) {
	t.Parallel()
	p := newDedup()
	now, req := time.Unix(1000, 0), &hottype.Request{Target: "/"}
	deciding, answer := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		p.decideOnce(now, "a", req, func() decision {
			close(deciding)
			<-answer
			return decision{verdict: hottype.Verdict{Rule: "first", Wait: 50 * time.Millisecond}, report: 7}
		})
	})
	<-deciding
	var second sync.WaitGroup
	second.Go(func() {
		v, repeated := p.decideOnce(now.Add(20*time.Millisecond), "a", req,
			func() decision { return decision{} })
		if !repeated || v.verdict.Rule != "first" || v.verdict.Wait != 30*time.Millisecond || v.report != 7 {
			t.Errorf("%v %+v", repeated, v)
		}
	})
	close(answer)
	first.Wait()
	second.Wait()
}

// A flood of ids takes no more memory than two generations hold.
func TestDedup_BoundsItsMemory(t *testing.T) {
	t.Parallel()
	p := newDedup()
	now, req := time.Unix(1000, 0), &hottype.Request{Target: "/"}
	for i := range 5 * maxRemembered {
		p.decideOnce(now, strconv.Itoa(i), req, func() decision { return decision{} })
		if n := len(p.recent) + len(p.older); n > 2*maxRemembered {
			t.Fatalf("%d ids are held", n)
		}
	}
}
