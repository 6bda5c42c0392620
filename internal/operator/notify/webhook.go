package notify

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// Format is the format of a webhook's messages.
type Format string

// The formats.
const (
	JSON         Format = "json"         // documented in docs/admin.md
	Alertmanager Format = "alertmanager" // POST /api/v2/alerts
	Slack        Format = "slack"        // incoming webhooks of Slack, and compatible ones
)

// Formats are all of them.
var Formats = []Format{JSON, Alertmanager, Slack}

// Webhook is a receiver of events.
type Webhook struct {
	Name string // [a-z][a-z0-9_-]{0,63}, the only thing about it that is logged
	// URL is where to post to, or URLFile contains it. The URL of an Alertmanager gets /api/v2/alerts appended unless
	// it ends so.
	URL, URLFile string
	Format       Format // default JSON
	Events       []Kind // default: all
	// Secret, or the content of SecretFile, signs messages: at least 16 bytes; "": they are not signed.
	Secret, SecretFile string
	TLS                tlsfiles.Files
	Timeout            time.Duration // of one attempt; default 5 s, at most a minute
	RetryFor           time.Duration // how long failed attempts are retried; default 5 min, at most a day
}

const (
	maxWebhooks     = 20
	minSecret       = 16 // bytes
	defaultTimeout  = 5 * time.Second
	defaultRetryFor = 5 * time.Minute
	maxSecretFile   = 64 << 10
)

var webhookName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// CheckWebhooks returns the first error of a list, nil if there is none. It reads no files. No error contains a URL.
func CheckWebhooks(list []Webhook) error {
	if len(list) > maxWebhooks {
		return fmt.Errorf("%d webhooks are more than %d", len(list), maxWebhooks)
	}
	names := map[string]bool{}
	for i, w := range list {
		w = w.withDefaults()
		switch {
		case !webhookName.MatchString(w.Name):
			return fmt.Errorf("[%d].name: %q is not a name such as ops-slack: small letters, digits, - and _", i,
				w.Name)
		case names[w.Name]:
			return fmt.Errorf("[%d].name: %s is set twice", i, w.Name)
		}
		names[w.Name] = true
		if err := w.check(); err != nil {
			return fmt.Errorf("[%d] (%s).%w", i, w.Name, err)
		}
	}
	return nil
}

func (w Webhook) withDefaults() Webhook {
	if w.Format == "" {
		w.Format = JSON
	}
	if len(w.Events) == 0 {
		w.Events = Kinds
	}
	if w.Timeout == 0 {
		w.Timeout = defaultTimeout
	}
	if w.RetryFor == 0 {
		w.RetryFor = defaultRetryFor
	}
	return w
}

func (w Webhook) check() error {
	switch {
	case (w.URL == "") == (w.URLFile == ""):
		return errors.New("url: want one of url and url_file")
	case w.Secret != "" && w.SecretFile != "":
		return errors.New("secret: secret and secret_file are both set; keep one")
	case w.Secret != "" && len(w.Secret) < minSecret:
		return fmt.Errorf("secret: has %d bytes, want at least %d; make one with: openssl rand -hex 24",
			len(w.Secret), minSecret)
	case !slices.Contains(Formats, w.Format):
		return fmt.Errorf("format: %q is none of %v", w.Format, Formats)
	case w.Timeout < 100*time.Millisecond || w.Timeout > time.Minute:
		return fmt.Errorf("timeout: %v is not between 100ms and 1m", w.Timeout)
	case w.RetryFor < time.Second || w.RetryFor > 24*time.Hour:
		return fmt.Errorf("retry_for: %v is not between 1s and 24h", w.RetryFor)
	}
	for i, kind := range w.Events {
		if !slices.Contains(Kinds, kind) {
			return fmt.Errorf("events: %q is none of %v", kind, Kinds)
		}
		if slices.Contains(w.Events[:i], kind) {
			return fmt.Errorf("events: %s is set twice", kind)
		}
	}
	if w.URL == "" {
		return nil
	}
	_, err := w.target(w.URL)
	return err
}

// target is where to post to. The error does not contain the text: it may be a secret.
func (w Webhook) target(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("url: want a URL such as https://example.org/hook; " +
			"the value is not shown, because it may be a secret")
	}
	u.Fragment = ""
	if w.Format == Alertmanager && !strings.HasSuffix(u.Path, "/api/v2/alerts") {
		u = u.JoinPath("/api/v2/alerts")
	}
	return u, nil
}

// read returns the URL and the secret, from their files if they are set.
func (w Webhook) read() (target *url.URL, secret []byte, err error) {
	text := w.URL
	if w.URLFile != "" {
		if text, err = readFile("url_file", w.URLFile); err != nil {
			return nil, nil, err
		}
	}
	if target, err = w.target(text); err != nil {
		return nil, nil, err
	}
	text = w.Secret
	if w.SecretFile != "" {
		if text, err = readFile("secret_file", w.SecretFile); err != nil {
			return nil, nil, err
		}
		if len(text) < minSecret {
			return nil, nil, fmt.Errorf("secret_file: %s has %d bytes, want at least %d; "+
				"write one with: openssl rand -hex 24 > %s", w.SecretFile, len(text), minSecret, w.SecretFile)
		}
	}
	return target, []byte(text), nil
}

// readFile reads a secret without the white space around it.
func readFile(field, path string) (string, error) {
	data, err := os.ReadFile(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", field, err)
	case len(data) > maxSecretFile:
		return "", fmt.Errorf("%s: %s has %d bytes: that is no secret", field, path, len(data))
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("%s: %s is empty", field, path)
	}
	return text, nil
}
