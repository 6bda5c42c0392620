package adapter_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

type options = hotparam.Options[hotparam.Exchange]

// perClient allows a client two requests.
const perClient = `
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}]
ip: {sliding: {limit: 2, window: 1h}}
`

func TestAdapter_SetsHeaderFieldsByOptions(t *testing.T) {
	t.Parallel()
	rules, err := hotparam.ParseRules("rules.yaml", []byte(perClient))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules, RetryJitter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	a := adapter.New(p, options{Headers: hottype.HeadersXRateLimit, ExposeHeaders: true, HideLimitHeaders: true})
	r := httptest.NewRequest(http.MethodGet, "/topic?id=7", nil)
	for i := range 3 {
		w := httptest.NewRecorder()
		d, err := a.Enforce(hotparam.Exchange{W: w, R: r}, w, r)
		if h := w.Header(); err != nil || (d != nil) != (i < 2) || (h.Get("X-RateLimit-Limit") != "") != (i == 2) ||
			h.Get("RateLimit") != "" ||
			strings.HasPrefix(h.Get("Access-Control-Expose-Headers"), "X-RateLimit") != (i == 2) {
			t.Errorf("%d: %v %v %v", i, d, err, h)
		}
	}
	byHand := adapter.New(p, options{Headers: hottype.HeadersXRateLimit, Status: http.StatusServiceUnavailable})
	d, err := byHand.Decide(hotparam.Exchange{}, r)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if d.WriteDenial(w, r); w.Code != http.StatusServiceUnavailable || w.Header().Get("X-RateLimit-Limit") == "" {
		t.Errorf("a denial by hand: %d %v", w.Code, w.Header())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := a.Decide(hotparam.Exchange{}, r.WithContext(ctx)); err != nil || v.Allowed {
		t.Errorf("%+v %v", v, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the status 200 is a denial")
		}
	}()
	adapter.New(p, options{Status: 200})
}

func TestAdapter_KnowsProofs(t *testing.T) {
	t.Parallel()
	adaptertest.Proofs(t, "go", func(t *testing.T, p *hotparam.Pipeline,
		answer func(adaptertest.Exchange) string) string {
		a := adapter.New(p, options{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d, err := a.Enforce(hotparam.Exchange{W: w, R: r}, w, r)
			if d == nil || err != nil {
				return
			}
			defer d.Done()
			text := answer(adaptertest.Exchange{Get: r.Header.Get, Set: w.Header().Set})
			d.ResponseStarted(http.StatusOK)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	})
}

// A handler that panics before its response grants nothing.
func TestDecision_DoneEndsGrants(t *testing.T) {
	t.Parallel()
	p := adaptertest.Pipeline(t, []byte("classes: [{name: staff, granted: true}]\n"+
		"rules: [{name: a, match: {path: /a}, params: [], hot: {rate: 1000},\n"+
		"  limit: {rate: 1000, burst: 4, priority: [staff]}}]"))
	a := adapter.New(p, options{})
	end := func(how func(d *adapter.Decision)) http.Header {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		d, err := a.Enforce(hotparam.Exchange{W: w, R: r}, w, r)
		if err != nil {
			t.Fatal(err)
		}
		w.Header().Set("X-Hotparam-Class", "staff")
		how(d)
		return w.Header()
	}
	for h := (http.Header{}); len(h["Set-Cookie"]) == 0; { // until there is a secret
		h = end(func(d *adapter.Decision) { d.ResponseStarted(http.StatusOK) })
	}
	if h := end((*adapter.Decision).Done); len(h) > 0 {
		t.Errorf("%v", h)
	}
}
