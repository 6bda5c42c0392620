package others

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

const (
	sourceOfHTTPRate  = "github.com/go-chi/httprate"
	sourceOfGoLimiter = "github.com/sethvargo/go-limiter"
)

// middlewareOf returns a handler behind the middleware, with a window for each client.
func middlewareOf(t *testing.T, n int64, window time.Duration) http.Handler {
	t.Helper()
	rules, err := hotparam.ParseRules("rules.yaml", fmt.Appendf(nil,
		"rules: [{name: all, match: {path: /none}, params: [], hot: {rate: 1}}]\nip: {sliding: {limit: %d, window: %v}}", n, window))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redistest.Running(t, p.Run))
	return p.MiddlewareWith(hotparam.Options[hotparam.Exchange]{Headers: hottype.HeadersXRateLimit})(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// statusFrom returns the answer to a request of a client.
func statusFrom(h http.Handler, remote string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = cmp.Or(remote, r.RemoteAddr)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// The middleware and the memory of limits answer the requests of httprate's tables as httprate has to.
func TestLimits_PassVectorsOfHTTPRate(t *testing.T) {
	s := begin(t, "go-chi/httprate", sourceOfHTTPRate)
	_, dir := moduleOf(t, sourceOfHTTPRate)
	file := filepath.Join(dir, "limiter_test.go")
	for _, test := range []string{"TestLimit", "TestLimitIP"} {
		for _, r := range readTable(t, file, test) {
			n, window := r.number("requestsLimit"), r.duration("windowLength")
			// httprate answers as its table has it, or the table was not read as it is meant.
			own := httprate.LimitBy(int(n), window, addressOf)(
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			if fault := answerAll(own, r); fault != nil {
				t.Errorf("%s: %s: httprate: %v", test, r.text("name"), fault)
			}
			s.record(test+": "+r.text("name"), answerAll(middlewareOf(t, n, window), r))
		}
	}
	for _, test := range []string{"TestWithIncrement", "TestResponseHeaders"} {
		for _, r := range readTable(t, file, test) {
			s.record(test+": "+r.text("name"), incremented(r))
		}
	}
}

// addressOf returns the key by which httprate's tests tell clients apart.
func addressOf(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return httprate.CanonicalizeIP(host), nil
}

// answerAll sends the requests of a row and compares the answers.
func answerAll(h http.Handler, r row) error {
	addresses := r.list("reqIp")
	for i, want := range r.numbers("respCodes") {
		remote := ""
		if len(addresses) > 0 {
			remote, _ = addresses[i].(string)
		}
		if got := statusFrom(h, remote).StatusCode; got != int(want) {
			return fmt.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	return nil
}

// incremented makes the calls of a row, with its increments, to a window of a minute.
func incremented(r row) error {
	m := limit.NewMemory(limit.MemoryConfig{})
	spec := limit.Spec{Algorithm: limit.SlidingWindow, Limit: r.number("requestsLimit"), Window: time.Minute}
	codes, costs := r.numbers("respCodes"), r.numbers("increments")
	for i, want := range codes {
		cost := r.number("increment")
		if len(costs) > 0 {
			cost = costs[i]
		}
		var result [1]limit.Result
		ok, err := m.Take(context.Background(), time.Now(), []limit.Charge{{Subject: limit.Subject{Space: "all"}, Spec: spec,
			Cost: cost}}, result[:])
		code := int64(http.StatusOK)
		if !ok {
			code = http.StatusTooManyRequests
		}
		if err != nil || code != want {
			return fmt.Errorf("call %d: %d, want %d: %v", i, code, want, err)
		}
		for field, got := range map[string]int64{"respLimitHeader": result[0].Limit,
			"respRemainingHeader": result[0].Remaining} {
			if list := r.list(field); len(list) > 0 && list[i] != strconv.FormatInt(got, 10) {
				return fmt.Errorf("call %d: %s is %d, want %v", i, field, got, list[i])
			}
		}
	}
	return nil
}

// Stores and middleware keep what go-limiter's tests expect of its stores and its middleware: twice as many calls at
// once as there are tokens, whose first half is allowed, and one more when the interval is over.
func TestLimits_PassVectorsOfGoLimiter(t *testing.T) {
	s := begin(t, "sethvargo/go-limiter", sourceOfGoLimiter)
	_, dir := moduleOf(t, sourceOfGoLimiter)
	shared := redisStore(t)
	for _, r := range readTable(t, filepath.Join(dir, "memorystore/store_test.go"), "TestStore_Take") {
		if fault := takeTwice(ownStore(t, r), r); fault != nil {
			t.Errorf("%s: go-limiter: %v", r.text("name"), fault)
		}
		for name, store := range map[string]ululeStore{"memory": memoryStore(), "Redis": shared} {
			s.record(fmt.Sprintf("TestStore_Take: %s, %s", r.text("name"), name), takeTwice(store, r))
		}
	}
	for _, r := range readTable(t, filepath.Join(dir, "httplimit/middleware_test.go"), "TestNewMiddleware") {
		h, tokens := middlewareOf(t, r.number("tokens"), time.Hour), r.number("tokens") // no interval ends meanwhile
		var fault error
		for i := range tokens + 1 {
			res := statusFrom(h, "")
			left, want := max(0, tokens-i-1), http.StatusOK
			if i == tokens {
				want = http.StatusTooManyRequests
			}
			reset, err := strconv.Atoi(res.Header.Get("X-RateLimit-Reset"))
			if res.StatusCode != want || res.Header.Get("X-RateLimit-Limit") != strconv.FormatInt(tokens, 10) ||
				res.Header.Get("X-RateLimit-Remaining") != strconv.FormatInt(left, 10) || err != nil || reset > 2*3600 {
				fault = fmt.Errorf("request %d: %d %v", i, res.StatusCode, res.Header)
			}
		}
		s.record("TestNewMiddleware: "+r.text("name"), fault)
	}
}

// ownStore returns go-limiter's store for a row: it answers as its test wants, or the row was not read as it is meant.
func ownStore(t *testing.T, r row) ululeStore {
	t.Helper()
	own, err := memorystore.New(&memorystore.Config{Tokens: uint64(r.number("tokens")),
		Interval: r.duration("interval")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close(context.Background()) })
	return ululeStore{take: func(ctx context.Context, c limit.Charge) (limit.Result, error) {
		_, left, _, ok, err := own.Take(ctx, c.Subject.Name)
		return limit.Result{Allowed: ok, Remaining: int64(left)}, err
	}}
}

// takeTwice takes all tokens of a row twice at the same time, and one when they are there again.
func takeTwice(store ululeStore, r row) error {
	tokens, interval := r.number("tokens"), r.duration("interval")
	charge := limit.Charge{Subject: limit.Subject{Space: "key", Name: r.text("name")}, Cost: 1,
		Spec: limit.Spec{Algorithm: limit.AnchoredWindow, Limit: tokens, Window: interval}}
	var mu sync.Mutex
	var allowed, remaining []int64
	var group sync.WaitGroup
	began := time.Now()
	for range 2 * tokens {
		group.Go(func() {
			result, err := store.take(context.Background(), charge)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && result.Allowed {
				allowed = append(allowed, result.Remaining)
			} else {
				remaining = append(remaining, result.Remaining)
			}
		})
	}
	group.Wait()
	if time.Since(began) >= interval {
		return takeTwice(store, row{"name": r.text("name") + ".", "tokens": tokens, "interval": interval}) // too slow
	}
	slices.Sort(allowed)
	if len(allowed) != int(tokens) || len(remaining) != int(tokens) || slices.Max(remaining) > 0 {
		return fmt.Errorf("allowed with %d, denied with %d", allowed, remaining)
	}
	for i, left := range allowed {
		if left != int64(i) {
			return fmt.Errorf("%d remained", allowed)
		}
	}
	<-time.After(interval)
	if result, err := store.take(context.Background(), charge); err != nil || !result.Allowed {
		return fmt.Errorf("after the interval: %+v, %v", result, err)
	}
	return nil
}
