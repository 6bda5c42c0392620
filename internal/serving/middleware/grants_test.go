package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// A response that grants a class sets its cookie, and is stored nowhere. The field never reaches a client.
func TestGrants_BecomeCookies(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, s *site) {
		for name, c := range map[string]struct {
			classes []string
			status  int
			target  string
			cookies int // of the classes' passes
		}{
			"granted": {[]string{"staff"}, 200, "/story?id=1", 1}, "at login": {[]string{"staff"}, 303, "/other", 1},
			"an error": {[]string{"staff"}, 403, "/other", 1}, "no body": {[]string{"staff"}, 204, "/other", 1},
			"unknown": {[]string{"root"}, 200, "/other", 0}, "not granted": {[]string{"member"}, 200, "/other", 0},
			"two": {[]string{"staff", "staff"}, 200, "/other", 0}, "list": {[]string{"staff, staff"}, 200, "/other", 0},
			"taken back": {[]string{""}, 200, "/other", -1},
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
				s.answer(func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Cdn-Cache-Control"] = []string{"max-age=60"}
					w.Header()["Cache-Control"] = []string{"public, max-age=60"}
					w.Header()["Set-Cookie"] = []string{"theme=dark"}
					w.Header()[httplimit.FieldGrant] = c.classes
					w.WriteHeader(c.status)
				})
				res, _ := s.get(method, c.target)
				s.checkGrant(name+", "+method, res, c.status, c.cookies)
			}
		}
	})
}

func (s *site) checkGrant(name string, res *http.Response, status, want int) {
	s.t.Helper()
	h, secure, private := res.Header, strings.HasPrefix(s.url, "https"), "private, no-store"
	var set []string
	for _, c := range res.Cookies() {
		class, bare := strings.CutPrefix(c.Name, "__Host-")
		switch {
		case class != "hotparam_class":
			continue
		case want >= 0 && (bare != secure || c.Secure != secure || c.MaxAge != 3600), want < 0 && c.MaxAge >= 0:
			s.t.Errorf("%s: %s", name, c.Raw)
		}
		set = append(set, c.Name)
	}
	n := max(want, 0)
	if want < 0 {
		n = map[bool]int{true: 2, false: 1}[secure]
	}
	if want == 0 {
		private = "public, max-age=60"
	}
	if res.StatusCode != status || len(set) != n || !slices.Contains(h["Set-Cookie"], "theme=dark") ||
		h[httplimit.FieldGrant] != nil || h.Get("Cache-Control") != private ||
		(h["Cdn-Cache-Control"] != nil) != (want == 0) {
		s.t.Errorf("%s: %d %v", name, res.StatusCode, h)
	}
}

// A response with a grant is for its own client: the cache does not keep it, and the client is in the class from its
// next request on, until its class is taken back.
func TestGrants_AreForTheirClient(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, s *site) {
		class := "staff"
		s.answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(httplimit.FieldGrant, class)
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = io.WriteString(w, "welcome")
		})
		for i := range 3 {
			if s.get(http.MethodGet, "/story?id=1"); s.asked.Load() != int64(i+1) {
				t.Errorf("request %d was answered from the cache", i)
			}
		}
		jar := s.client.Jar
		s.client.Jar = nil
		for range 20 {
			s.get(http.MethodGet, "/page/1")
		}
		denied, _ := s.get(http.MethodGet, "/page/1")
		s.client.Jar = jar
		class = ""
		in, _ := s.get(http.MethodGet, "/page/1")
		out, _ := s.get(http.MethodGet, "/page/1")
		if got := []int{denied.StatusCode, in.StatusCode, out.StatusCode}; !cmp.Equal(got, []int{429, 200, 429}) {
			t.Errorf("without the class, with it, after it: %v", got)
		}
	})
}

// The field is in no part of a response: informational responses, headers that are flushed before the body, trailers.
func TestGrants_ShowNothingInParts(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, s *site) {
		release := make(chan struct{})
		s.answer(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Link", "</a.css>")
			h.Set(httplimit.FieldGrant, "staff")
			w.WriteHeader(http.StatusEarlyHints)
			h.Del("Link")
			_, _ = io.WriteString(w, "first")
			_ = http.NewResponseController(w).Flush()
			<-release
			h.Set(http.TrailerPrefix+httplimit.FieldGrant, "staff")
			h.Set(http.TrailerPrefix+"X-Sum", "1")
		})
		var hints []textproto.MIMEHeader
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { hints = append(hints, h); return nil }})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/other", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		close(release) // the header has come before the end of the handler
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if len(res.Cookies()) != 1 || string(body) != "first" || err != nil || res.Trailer.Get("X-Sum") != "1" {
			t.Errorf("%v %q %v %v", res.Header, body, res.Trailer, err)
		}
		if len(hints) != 1 || hints[0].Get("Link") == "" || hints[0].Get("Set-Cookie") != "" {
			t.Errorf("early hints %v", hints)
		}
		for _, h := range []http.Header{res.Header, res.Trailer, http.Header(hints[0])} {
			if h[httplimit.FieldGrant] != nil {
				t.Errorf("the field is in %v", h)
			}
		}
	})
}

// A handler that panics before its response grants nothing, although a layer outside answers with its header.
func TestGrants_EndWithAPanic(t *testing.T) {
	t.Parallel()
	s := openSite(t, "middleware", "HTTP/1.1")
	set, _ := rules.Parse("rules.yaml", []byte(proofRules))
	h := middleware.New(gate.New(gate.Config{Rules: set, Hot: new(hotset.Replica), Passes: s.passes}),
		middleware.Options{Now: s.time}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(httplimit.FieldGrant, "staff")
		panic("broken")
	}))
	w := httptest.NewRecorder()
	func() {
		defer func() { _ = recover(); w.WriteHeader(500) }()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/other", nil))
	}()
	if len(w.Header()) > 0 {
		t.Errorf("%v", w.Header())
	}
}
