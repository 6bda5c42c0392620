package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	decide "github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// worker is an upstream that works on, whether its client has left or not.
type worker struct {
	now, most, total atomic.Int64
	work             time.Duration
	early            bool // the answer begins before the work
}

func (u *worker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := u.now.Add(1)
	defer u.now.Add(-1)
	u.total.Add(1)
	for most := u.most.Load(); n > most && !u.most.CompareAndSwap(most, n); most = u.most.Load() {
	}
	_, _ = io.Copy(io.Discard, r.Body)
	if u.early {
		for range 2 { // the second write to a client that has left fails
			fmt.Fprint(w, "begun")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(u.work / 5)
		}
	}
	time.Sleep(u.work)
	fmt.Fprint(w, "done")
}

// A client that leaves frees its slot when the upstream has ended its work, and not before.
func TestProxy_HoldsSlotUntilUpstreamEnds(t *testing.T) {
	t.Parallel()
	const limit = 5
	for _, c := range []struct {
		name         string
		in, out      *http.Protocols
		early, posts bool
		cut          bool // clients leave before they have sent the body
	}{
		{name: "HTTP/1"},
		{name: "HTTP/1, answer begun", early: true},
		{name: "HTTP/1, POST", posts: true},
		{name: "HTTP/1, POST without its body", posts: true, cut: true},
		{name: "HTTP/2", in: h2c(), out: h2c()},
		{name: "HTTP/2, answer begun", in: h2c(), out: h2c(), early: true},
		{name: "HTTP/2 to HTTP/1", in: h2c(), posts: true},
		{name: "HTTP/2, POST", in: h2c(), out: h2c(), posts: true},
		{name: "HTTP/2, POST without its body", in: h2c(), out: h2c(), posts: true, cut: true},
		{name: "HTTP/2 to HTTP/1, POST without its body", in: h2c(), posts: true, cut: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			work := &worker{work: 50 * time.Millisecond, early: c.early}
			up := httptest.NewUnstartedServer(work)
			up.Config.Protocols = c.out
			up.Start()
			t.Cleanup(up.Close)
			to, err := url.Parse(up.URL)
			if err != nil {
				t.Fatal(err)
			}
			if c.out != nil {
				to.Scheme = "h2c"
			}
			set, err := rules.Parse("r.yaml", fmt.Appendf(nil, "ip: {in_flight: {limit: %d, lease: 1h}}", limit))
			if err != nil {
				t.Fatal(err)
			}
			p, err := proxy.New(
				decide.New(decide.Config{Rules: set}),
				proxy.Config{Upstreams: map[string]*url.URL{"": to}},
			)
			if err != nil {
				t.Fatal(err)
			}
			front := httptest.NewUnstartedServer(p)
			front.Config.Protocols = c.in
			front.Start()
			t.Cleanup(front.Close)
			tr := &http.Transport{Protocols: c.in}
			t.Cleanup(tr.CloseIdleConnections)
			var clients sync.WaitGroup
			for range 20 {
				clients.Go(func() {
					for range 20 {
						sendAndLeave(t, tr, front.URL, c.posts, c.cut)
					}
				})
			}
			clients.Wait()
			if n := work.most.Load(); n > limit {
				t.Errorf("%d of %d at once, the limit is %d", n, work.total.Load(), limit)
			}
			// All slots are free when the work has ended.
			for deadline := time.Now().Add(10 * time.Second); ; {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := tr.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("slots are not free after the work has ended")
				}
			}
			if s := p.Stats().Upstreams[""]; s.Failures > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// sendAndLeave sends a request and leaves after 4 ms.
func sendAndLeave(t *testing.T, tr http.RoundTripper, to string, post, cut bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Millisecond)
	defer cancel()
	method, body := http.MethodGet, io.Reader(nil)
	if post {
		method, body = http.MethodPost, strings.NewReader("body")
	}
	if cut {
		stalled, end := io.Pipe()
		context.AfterFunc(ctx, func() { _ = end.CloseWithError(ctx.Err()) })
		body = io.MultiReader(strings.NewReader(strings.Repeat("x", 64<<10)), stalled) // a slot is taken
	}
	r, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		t.Error(err)
		return
	}
	if res, err := tr.RoundTrip(r); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// Requests that a response cache lets pass, and its own fetches, hold slots of their key and of their client until the
// upstream has ended its work, also if the client leaves before.
func TestProxy_HoldsSlotsOfCacheFetches(t *testing.T) {
	t.Parallel()
	const limit = 5
	for _, c := range []struct{ name, limits, field string }{
		{"key, bypass", "limit: {algorithm: in_flight, limit: 5, lease: 1h}}]", "Authorization"},
		{"key, fetches", "limit: {algorithm: in_flight, limit: 5, lease: 1h}}]", "Accept"},
		{"client, bypass", "limit: {rate: 1000000}}]\nip: {in_flight: {limit: 5, lease: 1h}}", "Authorization"},
		{"client, fetches", "limit: {rate: 1000000}}]\nip: {in_flight: {limit: 5, lease: 1h}}", "Accept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			work := &worker{work: 50 * time.Millisecond}
			up := httptest.NewServer(work)
			t.Cleanup(up.Close)
			to, err := url.Parse(up.URL)
			if err != nil {
				t.Fatal(err)
			}
			set, err := rules.Parse("r.yaml", []byte(
				"rules: [{name: topic, match: {path: /topic}, params: [], hot: {rate: 1000}, cache: {wait: 10ms}, "+c.limits))
			if err != nil {
				t.Fatal(err)
			}
			var hot hotset.Replica
			hot.Replace("test", report.HotSet{Version: 1, At: time.Now(), Keys: []hottype.HotKey{
				{Key: "topic", Rule: "topic", Rate: 2000, Since: time.Now(), Until: time.Now().Add(time.Hour)},
			}})
			p, err := proxy.New(
				decide.New(decide.Config{Rules: set, Hot: &hot}),
				proxy.Config{Upstreams: map[string]*url.URL{"": to}},
			)
			if err != nil {
				t.Fatal(err)
			}
			front := httptest.NewServer(p)
			t.Cleanup(front.Close)
			var clients sync.WaitGroup
			for i := range 20 {
				clients.Go(func() {
					for k := range 20 {
						ask(t, fmt.Sprintf("%s/topic?other=%d.%d", front.URL, i, k), c.field, 4*time.Millisecond)
					}
				})
			}
			clients.Wait()
			if n := work.most.Load(); n > limit || n == 0 {
				t.Errorf("%d of %d at once, the limit is %d", n, work.total.Load(), limit)
			}
			// All slots are free when the work has ended.
			for deadline := time.Now().Add(10 * time.Second); ; {
				if ask(t, front.URL+"/topic?other=last", c.field, time.Minute) == http.StatusOK {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("slots are not free after the work has ended")
				}
			}
		})
	}
}

// ask sends a request with a field, and leaves after a time. It returns the status, or 0 if there was no response.
func ask(t *testing.T, target, field string, patience time.Duration) int {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	r.Header.Set(field, "x")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}
