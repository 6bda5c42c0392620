package notify

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/textfile"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

type Format string

const (
	JSON         Format = "json"         // documented in docs/admin.md
	Alertmanager Format = "alertmanager" // POST /api/v2/alerts
	Slack        Format = "slack"        // incoming webhooks of Slack, and compatible ones
)

// Webhook is a receiver of events, as the settings describe it.
type Webhook struct {
	// Name is the only field of a webhook that is logged.
	Name string `name:"name" required:"true" form:"name"`
	// URL is the address that events are posted to, or URLFile contains it. /api/v2/alerts is appended to the URL of an
	// Alertmanager unless it ends with it.
	URL     string `name:"url"`
	URLFile string `name:"url_file"`
	Format  Format `name:"format" words:"json,alertmanager,slack" default:"json"`
	Events  []Kind `name:"events" words:"kinds"` // default: all
	// Secret, or the content of SecretFile, signs messages. It has at least 16 bytes; without a secret messages are not
	// signed.
	Secret     string         `name:"secret"`
	SecretFile string         `name:"secret_file"`
	TLS        tlsfiles.Files `name:",inline"`
	// Timeout bounds one attempt; failed attempts are repeated for RetryFor.
	Timeout  time.Duration `name:"timeout" in:"100ms..1m" default:"5s"`
	RetryFor time.Duration `name:"retry_for" in:"1s..24h" default:"5m"`
}

const (
	maxWebhooks = 20
	minSecret   = 16 // bytes
)

var webhooks = newSchema()

func newSchema() *conf.Schema {
	kinds := make([]string, len(Kinds))
	for i, k := range Kinds {
		kinds[i] = string(k)
	}
	s := &conf.Schema{
		Secret: true,
		Words:  map[string][]string{"kinds": kinds},
		Forms: map[string]conf.Form{"name": {Pattern: regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`),
			Want: "up to 64 of a-z, 0-9, _ and -, a letter first, such as on-call"}},
	}
	conf.Add(s, conf.Of[Webhook]{Check: func(v conf.Value, w *Webhook) { v.Validate(w.check) }})
	conf.Add(s, conf.Of[[]Webhook]{Check: checkList})
	return s
}

// ReadWebhooks reads a list in YAML; an empty text is an empty list. It reads no other files. No error repeats a value,
// because the value may be secret.
func ReadWebhooks(text []byte) (list []Webhook, err error) {
	node, err := conf.Document("", text)
	if err != nil {
		return nil, errors.New("the file must be a list of webhooks, such as [{name: ops, url: https://example.org/hook}]")
	}
	v := webhooks.Decode("", node, &list)
	v.Settle(&list)
	return list, v.Err()
}

func checkList(v conf.Value, list *[]Webhook) {
	if len(*list) > maxWebhooks {
		v.Fail("%d webhooks are more than %d", len(*list), maxWebhooks)
	}
	names := map[string]bool{}
	for i, w := range *list {
		if names[w.Name] {
			v.Entry(i).At("name").Fail("%s is set twice", w.Name)
		}
		names[w.Name] = true
	}
}

// check checks rules between fields, and sets the default of events.
func (w *Webhook) check() error {
	wrong := func(field, format string, args ...any) error {
		return &conf.FieldError{Field: field, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case (w.URL == "") == (w.URLFile == ""):
		return wrong("url", "set one of url and url_file")
	case w.Secret != "" && w.SecretFile != "":
		return wrong("secret", "secret and secret_file are both set; keep one")
	case w.Secret != "" && len(w.Secret) < minSecret:
		return wrong("secret", "has %d bytes, it must have at least %d; make one with: openssl rand -hex 24",
			len(w.Secret), minSecret)
	}
	for i, kind := range w.Events {
		if slices.Contains(w.Events[:i], kind) {
			return wrong("events", "%s is set twice", kind)
		}
	}
	if len(w.Events) == 0 {
		w.Events = Kinds
	}
	if w.URL == "" {
		return nil
	}
	if _, err := w.parseTarget(w.URL); err != nil {
		return &conf.FieldError{Field: "url", Err: err}
	}
	return nil
}

// parseTarget returns the URL to post to. The error does not contain the text, because it may be a secret.
func (w Webhook) parseTarget(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("must be a URL such as https://example.org/hook; " +
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
		data, err := textfile.Read(w.URLFile)
		if err != nil {
			return nil, nil, fmt.Errorf("url_file: %w", err)
		}
		text = strings.TrimSpace(string(data))
	}
	if target, err = w.parseTarget(text); err != nil {
		return nil, nil, fmt.Errorf("url: %w", err)
	}
	text = w.Secret
	if w.SecretFile != "" {
		if text, err = textfile.Secret(w.SecretFile); err != nil {
			return nil, nil, fmt.Errorf("secret_file: %w", err)
		}
		if len(text) < minSecret {
			return nil, nil, fmt.Errorf("secret_file: %s has %d bytes, it must have at least %d; "+
				"write one with: openssl rand -hex 24 > %s", w.SecretFile, len(text), minSecret, w.SecretFile)
		}
	}
	return target, []byte(text), nil
}
