package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// SignatureHeader is the name of the field with the signature: t=UNIX_SECONDS,v1=HEX.
const SignatureHeader = "Hotparam-Signature"

// maxAnswer is how much of a response is read, in bytes, so that the connection can be used again.
const maxAnswer = 64 << 10

// postBatch makes one attempt, and returns the status of the response, or 0 if there was no response. Errors that a
// retry cannot fix are backoff.PermanentError, and errors of a response with Retry-After are backoff.RetryAfterError.
// No error contains the URL, or text of the receiver, which may repeat the URL.
func (s *sender) postBatch(ctx context.Context, batch []Event) (status int, err error) {
	now := time.Now()
	body, err := s.encode(s.owner, batch, now)
	if err != nil {
		return 0, backoff.Permanent(fmt.Errorf("cannot be written: %w", err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target.String(), bytes.NewReader(body))
	if err != nil {
		return 0, backoff.Permanent(errors.New("url: no request can be made of it"))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "hotparam/"+s.owner.cfg.Version)
	if len(s.secret) > 0 {
		req.Header.Set(SignatureHeader, Sign(s.secret, now, body))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		err = withoutURL(err)
	} else {
		_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // only the status matters
		resp.Body.Close()
		status, err = resp.StatusCode, checkResponse(resp, now)
	}
	if ctx.Err() == nil || err == nil {
		s.recordAttempt(err, now)
	}
	return status, err
}

// Sign returns the signature of a body: HMAC-SHA256 of the time, a dot and the body. A receiver that verifies it also
// checks that the time is recent, which prevents replays.
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// withoutURL returns an error with the reason why there was no response. It never contains text of the receiver,
// because a receiver that sends back its request would put the secret path of the URL into it. Only errors of the
// connection, and errors before a request is sent, keep their text.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) && wrapped.Timeout() {
		return errors.New("no answer in time")
	}
	var dialed *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &dialed):
		return dialed
	case errors.As(err, &certificate):
		return certificate
	case errors.As(err, &record):
		return errors.New(record.Msg)
	case errors.As(err, &alert):
		return alert
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was closed without an answer")
	}
	return errors.New("the answer is not one of HTTP")
}

// checkResponse decides by the status of a response whether the batch is sent again. It returns nil for 2xx: the
// webhook accepted the batch. It returns an error that is retried for 408, 425, 429 and 5xx, with the pause for which
// Retry-After asks, if it does, and a backoff.PermanentError, which is not retried, for every other status.
func checkResponse(resp *http.Response, now time.Time) error {
	code := resp.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return backoff.Permanent(fmt.Errorf("answered %d: redirects are not followed; set the URL that it leads to",
			code))
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests,
		code >= 500:
		after, said := retryAfter(resp.Header.Get("Retry-After"), now)
		if !said {
			return fmt.Errorf("answered %d", code)
		}
		return &retryLater{code, &backoff.RetryAfterError{Duration: after}}
	}
	return backoff.Permanent(fmt.Errorf("answered %d", code))
}

type retryLater struct {
	code  int
	after *backoff.RetryAfterError
}

func (e *retryLater) Error() string {
	return fmt.Sprintf("answered %d, and asks to wait %v", e.code, e.after.Duration)
}

func (e *retryLater) Unwrap() error { return e.after }

// retryAfter reads the field Retry-After: seconds or a date. The result is at least the first pause of retries and at
// most ten minutes.
func retryAfter(text string, now time.Time) (wait time.Duration, ok bool) {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait, ok = time.Duration(seconds)*time.Second, true
	} else if at, err := http.ParseTime(text); err == nil {
		wait, ok = at.Sub(now), true
	}
	return min(max(wait, firstRetry), maxAfter), ok
}

// Version is the version of the json format. It changes when receivers have to change; new fields do not change it.
const Version = 1

type message struct {
	Version   int       `json:"version"`
	Namespace string    `json:"namespace"`
	Instance  string    `json:"instance"`
	SentAt    time.Time `json:"sent_at"`
	Events    []Event   `json:"events"`
}

func encodeJSON(n *Notifier, batch []Event, now time.Time) ([]byte, error) {
	return json.Marshal(message{Version, n.cfg.Namespace, n.cfg.Instance, now.UTC(), batch})
}

// slackMessage is a message of Slack's incoming webhooks, with all processing of its text turned off.
type slackMessage struct {
	Text        string `json:"text"`
	Markdown    bool   `json:"mrkdwn"`
	Parse       string `json:"parse"`
	LinkNames   bool   `json:"link_names"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
}

const maxLines = 20

// slackText escapes the three characters that Slack requires to be escaped, because they make mentions and links.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func encodeSlack(n *Notifier, batch []Event, _ time.Time) ([]byte, error) {
	var b strings.Builder
	for i := range batch[:min(len(batch), maxLines)] {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s", n.cfg.Namespace, slackText.Replace(batch[i].Text))
	}
	if more := len(batch) - maxLines; more > 0 {
		fmt.Fprintf(&b, "\nand %d further events", more)
	}
	return json.Marshal(slackMessage{Text: b.String(), Parse: "none"})
}

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

const (
	// alertTTL is how long an alert lasts without a refresh: several refreshes, so that a lost refresh does not end an
	// alert.
	alertTTL = 4 * refreshInterval
	maxLabel = 1024 // bytes of a key in a label
)

var alertNames = map[Kind]string{
	Hot: "HotparamKeyHot", Cold: "HotparamKeyHot", Loop: "HotparamLoop", Override: "HotparamOverrideChanged",
	StoreFailure: "HotparamStoreFailure", AdaptiveFloor: "HotparamAdaptiveFloor", Test: "HotparamTest",
}

var severities = map[Kind]string{StoreFailure: "critical", Override: "info", Test: "info"}

func encodeAlerts(n *Notifier, batch []Event, now time.Time) ([]byte, error) {
	list := make([]alert, len(batch))
	for i := range batch {
		list[i] = batch[i].newAlert(n.cfg.Namespace, now)
	}
	return json.Marshal(list)
}

// newAlert returns the event as an alert. An Alertmanager pairs an end with its beginning by their labels, so that
// values that change while the alert lasts are annotations.
func (e *Event) newAlert(namespace string, now time.Time) alert {
	a := alert{
		Labels:      map[string]string{"alertname": alertNames[e.Kind], "namespace": namespace, "severity": "warning"},
		Annotations: map[string]string{"summary": e.Text},
		StartsAt:    e.At.UTC(), EndsAt: now.UTC().Add(alertTTL),
	}
	if severity := severities[e.Kind]; severity != "" {
		a.Labels["severity"] = severity
	}
	for name, value := range map[string]string{"key": e.Key, "rule": e.Rule, "upstream": e.Upstream} {
		if value != "" {
			a.Labels[name] = printableText(value, maxLabel)
		}
	}
	if e.Author != "" {
		a.Annotations["author"] = printableText(e.Author, maxLabel)
	}
	if e.isEnd() {
		a.EndsAt = e.At.UTC()
		if !e.Since.IsZero() {
			a.StartsAt = e.Since.UTC()
		}
	}
	return a
}
