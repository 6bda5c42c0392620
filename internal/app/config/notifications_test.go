package config

import (
	"strings"
	"testing"
	"time"
)

func TestWebhooks_AreReadFromFile(t *testing.T) {
	t.Parallel()
	path := write(t, `notifications:
  webhooks:
    - {name: ops, url: "https://example.org/hook, really", events: [hot, cold], timeout: 2s, tls_ca: /ca.pem}
    - name: alerts
      url_file: /run/secrets/alertmanager
      format: alertmanager
`)
	var cfg Serve
	p, err := Build(&cfg, "serve", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"--config", path}); err != nil {
		t.Fatal(err)
	}
	w := cfg.Notifications.Webhooks
	if len(w) != 2 || w[0].URL != "https://example.org/hook, really" || len(w[0].Events) != 2 ||
		w[0].Timeout != 2*time.Second || w[0].TLS.CA != "/ca.pem" || w[1].URLFile != "/run/secrets/alertmanager" ||
		w[1].Format != "alertmanager" {
		t.Errorf("%+v", w)
	}
}

// An error names the line and the field, and does not repeat a value that may be secret.
func TestWebhooks_ErrorsNameLineAndField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[{name: ops, url: http://x/s3cret, fromat: json}]":      `[0].fromat: unknown field; did you mean "format"?`,
		"[{name: ops, url: http://x/s3cret, timeout: s3cret}]":   "[0].timeout: the value is not a time such as",
		"[{name: ops, url: http://x/s3cret, events: hot}]":       "[0].events: must be a list",
		"[{name: ops, url: [http://x/s3cret]}]":                  "[0].url: must be a string",
		"[{name: ops, url: s3cret}]":                             "[0].url: must be a URL",
		"[{name: ops, name: s3cret, url: http://x/}]":            "[0].name: is set twice",
		"[{name: ops, url: http://x/, format: xml}]":             "[0].format: the value is not one of json, alertmanager, slack",
		"[{name: ops, url: http://x/, secret: s3cret}]":          "has 6 bytes, it must have at least 16",
		"[{url: http://x/s3cret}]":                               "[0].name",
		"[https://x/s3cret]":                                     "[0]: must be a mapping",
		"{name: s3cret}":                                         "must be a list, not a mapping",
		"[{name: a, url: http://x/}, {name: a, url: http://x/}]": "a is set twice",
	} {
		for _, args := range [][]string{
			{"--config", write(t, "log: {level: warn}\nnotifications:\n  webhooks: "+text+"\n")},
			{"--notifications.webhooks=" + text},
		} {
			p, err := Build(&Aggregator{}, "aggregator", "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Parse(args)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			if err != nil && args[0] == "--config" &&
				(!strings.Contains(err.Error(), ".yaml:3: notifications.webhooks: ") ||
					strings.Contains(err.Error(), "--notifications")) {
				t.Errorf("%s: no line, or the name of a flag, in %v", text, err)
			}
		}
	}
}

func FuzzWebhooks(f *testing.F) {
	f.Add("[{name: ops, url: http://x/y, events: [hot], timeout: 1s}]")
	f.Add("[{name: *a}]")
	f.Add("- &a [*a]")
	f.Fuzz(func(_ *testing.T, text string) {
		var w Webhooks
		_ = w.UnmarshalText([]byte(text)) // every text is read without a panic
	})
}
