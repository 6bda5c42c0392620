package httplimit_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

func quotedTexts(rule, key string) (string, string) {
	v := hottype.Verdict{Rule: rule, Key: hottype.Key(key)}
	httplimit.Quote(&v)
	return v.Rule, string(v.Key)
}

// A quoted text is bounded, short texts are quoted whole, and texts that begin alike stay different.
func TestQuote_CutsAnyTextAndKeepsItApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "!hp1:", "/", "topic?id=", "topic"}).Draw(t, "prefix")
		units := rapid.SampledFrom([]string{"a", "%21", "/", "_", "?", "&a=1"})
		unit := rapid.OneOf(units, rapid.StringN(1, 4, 9)).Draw(t, "unit")
		text := prefix + strings.Repeat(unit, rapid.IntRange(0, 3000).Draw(t, "units"))
		rule, key := quotedTexts(text, text)
		if len(rule) > 64 || len(key) > 416 {
			t.Fatalf("%d bytes are quoted as a rule of %d and a key of %d", len(text), len(rule), len(key))
		}
		if len(text) <= 64 && (rule != text || key != text) {
			t.Fatalf("%q is quoted as %q and %q", text, rule, key)
		}
		if otherRule, otherKey := quotedTexts(text+"b", text+"b"); otherRule == rule || otherKey == key {
			t.Fatalf("%.80q and a longer text are both quoted as %q and %q", text, rule, key)
		}
	})
}

// A key that is cut is quoted by its alias, which ends in a hash and which overrides know.
func TestQuote_WritesAnAliasThatOverridesKnow(t *testing.T) {
	t.Parallel()
	long := hottype.Key("topic?id=" + strings.Repeat("%21", 250))
	_, key := quotedTexts("topic", string(long))
	alias, ok := canon.Alias([]byte(long), nil)
	if !ok || key != string(alias) || canon.Check(hottype.Key(key)) != nil ||
		!strings.HasPrefix(key, "!hp1:topic.id=") ||
		strings.LastIndex(key, "Zh") != len(key)-34 {
		t.Errorf("%q, want %q: %v", key, alias, canon.Check(hottype.Key(key)))
	}
}

// The detail of a problem may quote a client.
func TestWriteProblem_CutsItsDetail(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	httplimit.WriteProblem(rec, http.StatusBadRequest, strings.Repeat("ü", 3000))
	var p struct{ Detail string }
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || len(p.Detail) > 512 || !utf8.ValidString(p.Detail) ||
		!strings.HasSuffix(p.Detail, "ü…") {
		t.Errorf("%v: %d bytes", err, len(p.Detail))
	}
}

// A path that http.ServeMux would answer with a redirect to it gets an answer that does not quote it.
func TestWithoutRedirects_QuotesNoTarget(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/edge", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/page/", func(http.ResponseWriter, *http.Request) {})
	h := httplimit.WithoutRedirects(mux)
	for path, want := range map[string]int{"/v1/edge": 200, "/page/": 200, "/page/a": 200, "//v1/edge": 404,
		"/v1/./edge": 404, "/x/../v1/edge": 404, "/page//a": 404, "/": 404, "/page/%2Fa": 200} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path, _ = url.PathUnescape(path)
		r.URL.RawPath = path
		r.URL.RawQuery = strings.Repeat("a", 5000)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != want || len(rec.Header().Get("Location")) > 0 || rec.Body.Len() > 500 {
			t.Errorf("%s: %d, %v", path, rec.Code, rec.Header())
		}
	}
}
