package respcache_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// lifetime is a Cache-Control with the hand-computed lifetimes that it means: until when the answer may be served, and
// how much longer while it is fetched again, and if that fails.
type lifetime struct {
	control               string
	fresh, stale, ifError time.Duration
}

// The bundle's rule says ttl 1s, stale 10s, stale_if_error 1m.
var lifetimes = []lifetime{
	{"", time.Second, 10 * time.Second, time.Minute},
	{"max-age=5", 5 * time.Second, 10 * time.Second, time.Minute},
	{`MAX-AGE="4" , unknown="a,b=1"`, 4 * time.Second, 10 * time.Second, time.Minute},
	{"max-age=5, must-revalidate", 5 * time.Second, 0, 0},
	{"max-age=9, s-maxage=3", 3 * time.Second, 0, 0},
	{"max-age=5, stale-while-revalidate=2, stale-if-error=4", 5 * time.Second, 2 * time.Second, 4 * time.Second},
	{"max-age=2, max-age=5", 2 * time.Second, 10 * time.Second, time.Minute},
	{"max-age=9, private", 0, 0, 0},
	{"no-store, max-age=9", 0, 0, 0},
	{"max-age=-1", 0, 0, 0},
	{"max-age=1e9", 0, 0, 0},
	{"max-age=0", 0, 0, 0},
}

// plan is the form of the upstream's next response.
type plan struct {
	lifetime
	status int
	vary   string
	cookie bool // Set-Cookie
	dies   int  // 1: before its answer, 2: in the middle of it, 3: without knowing it
	denied bool // the limit lets nothing through
}

func drawPlan(rt *rapid.T) plan {
	return plan{
		lifetime: rapid.SampledFrom(lifetimes).Draw(rt, "control"),
		status:   rapid.SampledFrom([]int{200, 200, 200, 404, 500, 503}).Draw(rt, "status"),
		vary: rapid.SampledFrom([]string{"", "", "X-Lang", "Accept-Encoding, x-lang", "X-Unlisted", "*"}).
			Draw(rt, "vary"),
		cookie: rapid.IntRange(0, 5).Draw(rt, "set-cookie") == 0,
		dies:   max(0, rapid.IntRange(-6, 3).Draw(rt, "dies")),
		denied: rapid.IntRange(0, 4).Draw(rt, "refused") == 0,
	}
}

// made is an answer of the upstream.
type made struct {
	plan
	target, lang, user string
	at                 time.Duration
	serial             int
}

func (m *made) body() string {
	return strings.Repeat(fmt.Sprint(m.target, m.lang, m.user, m.serial), 50)
}

// site is an upstream that remembers its responses.
type site struct {
	*bundle
	plan plan
	made []made
}

// failedSince reports whether a fetch of the target of an answer failed after it was made.
func (s *site) failedSince(m *made) bool {
	return slices.ContainsFunc(s.made[m.serial+1:], func(later made) bool {
		return later.target == m.target && (later.dies != 0 || later.status >= 500)
	})
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := made{
		plan: s.plan, target: r.RequestURI, lang: r.Header.Get("X-Lang"),
		user: r.Header.Get("Authorization") + r.Header.Get("Cookie"),
		at:   time.Duration(s.now.Load()), serial: len(s.made),
	}
	s.made = append(s.made, m)
	if m.dies == 1 {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h.Set("X-Serial", strconv.Itoa(m.serial))
	h.Set("Content-Length", strconv.Itoa(len(m.body())))
	if m.control != "" {
		h.Set("Cache-Control", m.control)
	}
	if m.vary != "" {
		h.Set("Vary", m.vary)
	}
	if m.cookie {
		h.Set("Set-Cookie", "a=b")
	}
	w.WriteHeader(m.status)
	body := []byte(m.body())
	if m.dies > 0 {
		body = body[:len(body)/2]
	}
	if _, _ = w.Write(body); m.dies == 2 {
		panic(http.ErrAbortHandler)
	}
}

// ask asks as a client would. broken is whether the connection was broken off.
func (s *site) ask(method, target, lang, user string) (w *httptest.ResponseRecorder, broken bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		} else if p != nil {
			broken = true
		}
	}()
	var fields []string
	if lang != "" {
		fields = append(fields, "X-Lang", lang)
	}
	if user != "" {
		fields = append(fields, "Authorization", user)
	}
	return s.bundle.ask(method, target, fields...), false
}

// For any responses of the upstream and any requests, no client gets the response for another client, target or
// variant, an outdated response, or a part of one.
func TestCache_MatchesModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { // whose Deadline a bubble does not have
			s := &site{bundle: build(t, respcache.Config{Memory: 16 << 10}, nil)}
			s.upstream = s.ServeHTTP
			for range 60 {
				s.step(rt)
			}
		})
	})
}

func (s *site) step(rt *rapid.T) {
	s.plan = drawPlan(rt)
	s.gate.tokens.Store(-1)
	if s.plan.denied {
		s.gate.tokens.Store(0)
	}
	s.advance(time.Duration(rapid.SampledFrom([]int{0, 0, 100, 1000, 2500, 7000, 30_000, -2000}).
		Draw(rt, "advance")) * time.Millisecond)
	method := rapid.SampledFrom([]string{"GET", "GET", "HEAD"}).Draw(rt, "method")
	target := rapid.SampledFrom([]string{"/topic?id=1", "/topic?id=1&page=2"}).Draw(rt, "target")
	lang := rapid.SampledFrom([]string{"", "de", "en"}).Draw(rt, "lang")
	user := rapid.SampledFrom([]string{"", "", "", "anna", "bert"}).Draw(rt, "user")
	before := len(s.made)
	w, broken := s.ask(method, target, lang, user)
	synctest.Wait() // refreshes have ended
	switch {
	case broken && s.plan.dies == 0:
		rt.Fatalf("broken off although the upstream answered")
	case broken:
		return
	case w.Code == http.StatusTooManyRequests && !s.plan.denied:
		rt.Fatalf("denied although the limit is not used up")
	case w.Code == http.StatusTooManyRequests:
		return
	}
	serial, err := strconv.Atoi(w.Header().Get("X-Serial"))
	if err != nil {
		rt.Fatalf("%d %v: %v", w.Code, w.Header(), err)
	}
	m := s.made[serial]
	if m.dies == 3 && strings.Contains(w.Header().Get("Cache-Status"), "fwd=bypass") {
		return // the server sees that it is short
	}
	switch {
	case m.target != target, m.user != user, strings.Contains(strings.ToLower(m.vary), "x-lang") && m.lang != lang:
		rt.Fatalf("%s for %q, %q got that for %s, %q, %q", target, lang, user, m.target, m.lang, m.user)
	case w.Code != m.status, method == http.MethodGet && w.Body.String() != m.body(),
		method == http.MethodHead && serial < before && w.Body.Len() > 0:
		rt.Fatalf("%d and %d bytes of %d", w.Code, w.Body.Len(), len(m.body()))
	case serial >= before:
		return // made for this request
	case user != "", m.user != "", m.cookie, m.dies != 0, m.vary == "*", m.vary == "X-Unlisted",
		m.control == "" && m.status >= 500:
		rt.Fatalf("from the cache, for %q: %+v", user, m)
	}
	allowed := m.fresh
	if m.fresh > 0 {
		allowed += m.stale
	}
	fails := s.plan.denied || s.plan.dies != 0 || s.plan.status >= 500
	if (fails || s.failedSince(&m)) && m.fresh > 0 {
		allowed = max(allowed, m.fresh+m.ifError)
	}
	if age := time.Duration(s.now.Load()) - m.at; age < 0 || age >= allowed {
		rt.Fatalf("%v old, %v are allowed: %+v", age, allowed, m)
	}
}
