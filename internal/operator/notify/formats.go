package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Version is the version of the json format. It changes when receivers have to change; new fields do not change it.
const Version = 1

// message is a message in the json format.
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

// maxLines bounds a message to people.
const maxLines = 20

// slackText escapes the three characters that Slack requires to be escaped; they make mentions and links.
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

// alert is one alert of Alertmanager's API, version 2.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

const (
	// alertTTL is how long an alert lasts without a refresh: several refreshes, so that a lost one ends no alert.
	alertTTL = 4 * refresh
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
		list[i] = batch[i].alert(n.cfg.Namespace, now)
	}
	return json.Marshal(list)
}

// alert is the event as an alert. An Alertmanager pairs an end with its beginning by their labels, so values that
// change while the alert lasts are annotations.
func (e *Event) alert(namespace string, now time.Time) alert {
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
			a.Labels[name] = shown(value, maxLabel)
		}
	}
	if e.Author != "" {
		a.Annotations["author"] = shown(e.Author, maxLabel)
	}
	if e.ends() {
		a.EndsAt = e.At.UTC()
		if !e.Since.IsZero() {
			a.StartsAt = e.Since.UTC()
		}
	}
	return a
}
