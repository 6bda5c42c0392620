package notify

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
)

func TestWebhook_ChecksItsSettings(t *testing.T) {
	t.Parallel()
	good := Webhook{Name: "ops", URL: "https://example.org/x"}
	for want, change := range map[string]func(*Webhook){
		"":                            func(*Webhook) {},
		"[0].Name":                    func(w *Webhook) { w.Name = "Ops!" },
		"one of url and url_file":     func(w *Webhook) { w.URL = "" },
		"must be a URL such as":       func(w *Webhook) { w.URL = "hooks.slack.com/s3cret" },
		"[0].URL: must be a URL":      func(w *Webhook) { w.URL = "https://[s3cret" },
		"is not one of json":          func(w *Webhook) { w.Format = "xml" },
		"is not one of hot":           func(w *Webhook) { w.Events = []Kind{"hott"} },
		"hot is set twice":            func(w *Webhook) { w.Events = []Kind{Hot, Hot} },
		"at least 16":                 func(w *Webhook) { w.Secret = "s3cret" },
		"keep one":                    func(w *Webhook) { w.Secret, w.SecretFile = "x", "y" },
		"not between 100ms and 1m":    func(w *Webhook) { w.Timeout = time.Hour },
		"[0].RetryFor":                func(w *Webhook) { w.RetryFor = -1 },
		"url_file: open /not/there":   func(w *Webhook) { w.URL, w.URLFile = "", "/not/there" },
		"tls_ca: open /not/there: no": func(w *Webhook) { w.TLS.CA = "/not/there" },
	} {
		w := good
		change(&w)
		_, err := New(Config{Webhooks: []Webhook{w}}, time.Now())
		if (want == "") != (err == nil) {
			t.Errorf("%q: %v", want, err)
		} else if err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%q: %v", want, err)
		}
	}
	_, err := New(Config{Webhooks: []Webhook{good, good}}, time.Now())
	if err == nil || !strings.Contains(err.Error(), "ops is set twice") {
		t.Error(err)
	}
}

func TestWebhook_ReadsSecretsFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w := Webhook{Format: Alertmanager, URLFile: write("url", " http://am.example.org/prefix\n")}
	w.SecretFile = write("secret", "0123456789abcdef\n")
	target, secret, err := w.read()
	const want = "http://am.example.org/prefix/api/v2/alerts"
	if err != nil || target.String() != want || string(secret) != "0123456789abcdef" {
		t.Errorf("%v %q %v", target, secret, err)
	}
	w.SecretFile = write("short", "s3cret")
	if _, _, err := w.read(); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "1e9", "99999999999", "Sat, 14 Mar 2026 12:00:00 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, _ := retryAfter(s, time.Unix(1_700_000_000, 0)); d < firstRetry || d > maxAfter {
			t.Errorf("%q: %v", s, d)
		}
	})
}

func TestRetryAfter_ReadsSecondsAndDates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Second, "0": firstRetry, "86400": maxAfter, "Sat, 14 Mar 2026 12:01:00 GMT": time.Minute,
	} {
		if d, ok := retryAfter(text, now); d != want || !ok {
			t.Errorf("%q: %v", text, d)
		}
	}
	if _, ok := retryAfter("soon", now); ok {
		t.Error("soon is no time")
	}
	var later *backoff.RetryAfterError
	resp := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"30"}}}
	if err := checkResponse(resp, now); !errors.As(err, &later) {
		t.Error(err)
	}
}
