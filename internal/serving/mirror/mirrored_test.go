package mirror

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/wait"
)

// ledger records the counted requests.
type ledger []string

func (l *ledger) AddFrom(key []byte, second, n int64, client hottype.Client) {
	*l = append(*l, strings.TrimSuffix(fmt.Sprintf("%s@%d x%d by %s", key, second, n, client), " by -"))
}

// All copies come from one gateway. It must never pass for the client, or
// all clients behind it would be a loop.
func TestOriginalClient_IsNeverSenderOfCopy(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("test.yaml",
		[]byte("rules:\n  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	trusting := httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}, "")
	for _, test := range []struct {
		clients       *httplimit.Clients
		forwarded, by string
	}{
		{nil, "", ""},
		{nil, "198.51.100.7", ""},
		{httplimit.NewClients(nil, ""), "198.51.100.7", ""},
		{trusting, "", ""},
		{trusting, "garbage", ""},
		{trusting, "198.51.100.7", " by 198.51.100.7"},
		{trusting, "10.0.0.1, 2001:db8::7", " by 2001:db8::"},
	} {
		var got ledger
		var recorded []string
		record := func(of *rules.Set, m *rules.Match, second int64, target string) {
			recorded = append(recorded, fmt.Sprint(of == set, " ", m.Rule.Name, " ", second, " ", target))
		}
		req := httptest.NewRequest(http.MethodGet, "/topic?id=1", nil) // from 192.0.2.1
		if test.forwarded != "" {
			req.Header.Set("X-Forwarded-For", test.forwarded)
		}
		New(func() *rules.Set { return set }, &got,
			Options{Clients: test.clients, Record: record, Now: func() time.Time { return time.Unix(7, 0) }}).
			ServeHTTP(httptest.NewRecorder(), req)
		if want := "topic?id=1@7 x1" + test.by; len(got) != 1 || got[0] != want {
			t.Errorf("%q: %v, want %s", test.forwarded, got, want)
		}
		if want := []string{"true topic 7 /topic?id=1"}; !slices.Equal(recorded, want) {
			t.Errorf("%q: %q are recorded, want %q", test.forwarded, recorded, want)
		}
	}
}

func TestOriginalHost_RemovesSuffixOfEnvoy(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"www.example.org":             "www.example.org",
		"www.example.org-shadow":      "www.example.org",
		"www.example.org-shadow:8080": "www.example.org:8080",
		"[::1]:8080":                  "[::1]:8080",
		"":                            "",
	} {
		if got := originalHost(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}

// failing is a body that must not be read.
type failing struct{ t *testing.T }

func (f failing) Read([]byte) (int, error) { f.t.Error("the body was read"); return 0, io.EOF }

func TestHandler_ReadsNoBody(t *testing.T) {
	t.Parallel()
	h := New(rules.Default, &ledger{}, Options{})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/x", failing{t}))
}

func TestHandler_CountsOriginalRequests(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("test.yaml", []byte("rules:\n  - {name: topic, params: [id], hot: {rate: 10},\n"+
		"     match: {path: /topic, methods: [GET], hosts: [news.example, example.com]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	nginx := Options{URIHeader: "X-Original-URI", MethodHeader: "X-Original-Method",
		Now: func() time.Time { return time.Unix(7, 0) }}
	for name, tt := range map[string]struct {
		opt    Options
		target string
		header http.Header
		want   string
		stats  Stats
	}{
		"nginx": {nginx, "/mirror", http.Header{"X-Original-Uri": {"/topic?utm=1&id=42"}},
			"topic?id=42@7 x1", Stats{Requests: 1}},
		"envoy": {nginx, "/topic?id=42", nil, "topic?id=42@7 x1", Stats{Requests: 1}},
		"another method": {nginx, "/mirror", http.Header{"X-Original-Uri": {"/topic?id=42"},
			"X-Original-Method": {"PUT"}}, "", Stats{Requests: 1, Unmatched: 1}},
		"no rule": {nginx, "/other", nil, "", Stats{Requests: 1, Unmatched: 1}},
		"beyond the limits": {nginx, "/topic?id=" + strings.Repeat("x", 300), nil, "topic?!malformed@7 x1",
			Stats{Requests: 1, Malformed: 1}},
		"headers not asked": {Options{Now: nginx.Now}, "/topic?id=1", http.Header{"X-Original-Uri": {"/topic?id=42"}},
			"topic?id=1@7 x1", Stats{Requests: 1}},
		"a sender's host": {nginx, "http://sport.example/topic?id=1", http.Header{"X-Forwarded-Host": {"news.example"}},
			"", Stats{Requests: 1, Unmatched: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got ledger
			h := New(func() *rules.Set { return set }, &got, tt.opt)
			req := httptest.NewRequest(http.MethodGet, tt.target, nil)
			for k, v := range tt.header {
				req.Header[k] = v
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			if rec.Code != http.StatusNoContent || rec.Body.Len() != 0 {
				t.Errorf("answered %d %q, want 204 and nothing", rec.Code, rec.Body)
			}
			if strings.Join(got, " ") != tt.want || h.Stats() != tt.stats {
				t.Errorf("counted %v, %+v; want %q, %+v", got, h.Stats(), tt.want, tt.stats)
			}
		})
	}
}

// Copies that may have waited while this process stood still are answered and not counted.
func TestHandler_LeavesOutWhatWaited(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("test.yaml",
		[]byte("rules:\n  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var got ledger
		var stood wait.Standstill
		h := New(func() *rules.Set { return set }, &got, Options{Standstill: &stood})
		copied := func() {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/topic?id=1", nil)); w.Code != http.StatusNoContent {
				t.Errorf("status %d", w.Code)
			}
		}
		stood.Beat()
		copied()
		time.Sleep(3 * time.Second)
		copied()
		if st := h.Stats(); len(got) != 1 || st.Requests != 2 || st.LeftOut != 1 {
			t.Errorf("%v, %+v", got, st)
		}
	})
}
