package notify

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// hostile are values as strangers send them.
var hostile = []string{
	"<script>alert(1)</script>", "<!channel> <!here> <@U024BE7LH>", "<https://evil.example.org|your bank>", "&lt;&amp;",
	"*bold* `code` ~x~", "topic?id=\u202egnp.exe", "a\u0000b", "a\nb\r\n\r\nHTTP/1.1 200 OK",
	"\x1b[31mred", "=cmd|' /C calc'!A0", "{{ .Labels }}", `"}],"x":"`,
	strings.Repeat("k", 8192), "\xff\xfe",
	"a\u2028b\u2029c", "\u200b\u200d\ufeff", "@everyone", "' OR 1=1 --", "$(reboot)", "../../etc/passwd",
}

func TestEncoders_WriteHostileValuesAsText(t *testing.T) {
	t.Parallel()
	n := &Notifier{cfg: Config{Namespace: "shop"}}
	for _, v := range hostile {
		checkText(t, n, v)
	}
	rapid.Check(t, func(rt *rapid.T) { checkText(rt, n, rapid.String().Draw(rt, "value")) })
}

var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

func checkText(t rapid.TB, n *Notifier, v string) {
	t.Helper()
	for _, kind := range append([]Kind{Test}, Kinds...) {
		e := Event{Kind: kind, Key: v, Rule: v, Client: v, Author: v, Change: v, Upstream: v, Why: v,
			Ended: len(v)%2 == 0}
		if e.Text = e.formatText(); len(e.Text) > 6*maxShown {
			t.Fatalf("%d bytes for people", len(e.Text))
		}
		if !utf8.ValidString(e.Text) || strings.ContainsFunc(e.Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q", e.Text)
		}
		var slack slackMessage
		decode(t, encodeSlack, n, e, &slack)
		if strings.ContainsAny(slack.Text, "<>\n") || slack.Markdown || slack.LinkNames || slack.Parse != "none" {
			t.Fatalf("%+v", slack)
		}
		if plain := unescape.Replace(slack.Text); plain != "shop: "+e.Text {
			t.Fatalf("%q is not %q", plain, e.Text)
		}
		var alerts []alert
		decode(t, encodeAlerts, n, e, &alerts)
		for name, value := range alerts[0].Labels {
			if len(value) > maxLabel+16 || strings.ContainsFunc(value,
				func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%s: %q", name, value)
			}
		}
		var own message
		decode(t, encodeJSON, n, e, &own)
		if got := own.Events[0].Key; got != strings.ToValidUTF8(v, "\ufffd") && utf8.ValidString(v) {
			t.Fatalf("%q is not %q", got, v)
		}
	}
}

func decode(t rapid.TB, encode func(*Notifier, []Event, time.Time) ([]byte, error), n *Notifier, e Event, into any) {
	t.Helper()
	body, err := encode(n, []Event{e}, time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
}

func TestEncodeSlack_CountsFurtherEvents(t *testing.T) {
	t.Parallel()
	n := &Notifier{cfg: Config{Namespace: "shop"}}
	body, err := encodeSlack(n, make([]Event, 23), time.Time{})
	if err != nil || !strings.Contains(string(body), `\nand 3 further events"`) {
		t.Errorf("%s %v", body, err)
	}
}

// Active alerts are sent to an Alertmanager repeatedly, and an end has the labels of its beginning.
func TestSender_RefreshesAlerts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Webhook{Format: Alertmanager, Events: []Kind{Hot}}, nil)
		began := time.Now()
		w.Notify(hot("topic?id=42"))
		pass(150 * time.Second)
		w.Notify(cold("topic?id=42"))
		pass(2 * time.Minute)
		if len(w.bodies) != 4 {
			t.Fatalf("%d messages", len(w.bodies))
		}
		for i, body := range w.bodies {
			var list []alert
			if err := json.Unmarshal(body, &list); err != nil || len(list) != 1 {
				t.Fatalf("%v: %s", err, body)
			}
			a, ends := list[0], w.at[i].Add(alertTTL)
			if i == 3 {
				ends = w.at[i]
			}
			labels := map[string]string{
				"alertname": "HotparamKeyHot", "namespace": "shop", "key": "topic?id=42", "rule": "topic",
				"severity": "warning",
			}
			if !a.StartsAt.Equal(began) || !a.EndsAt.Equal(ends) || !maps.Equal(a.Labels, labels) {
				t.Errorf("message %d: %+v", i, a)
			}
		}
	})
}

// Only the leader refreshes alerts, and a new leader sends all active alerts.
func TestSender_RefreshesAlertsOnlyAsLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		w := newWorld(t, Webhook{Format: Alertmanager}, nil, func(c *Config) { c.IsLeader = leads.Load })
		w.Notify(hot("a"))
		pass(2*time.Minute + time.Second)
		if len(w.bodies) != 0 {
			t.Errorf("%d messages without the lead", len(w.bodies))
		}
		leads.Store(true)
		pass(time.Minute)
		if len(w.bodies) != 1 {
			t.Errorf("%d messages after the takeover", len(w.bodies))
		}
	})
}

// A real server with a certificate of a private authority, which redirects at first.
func TestSender_PostsToARealServer(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got <- "elsewhere" }))
	defer elsewhere.Close()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/moved") {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.Header.Get("Content-Type") + " " + r.Header.Get("User-Agent") + " " + string(body)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := Webhook{Name: "stranger", URL: server.URL + "/s3cret", Timeout: time.Minute}
	known, moved := stranger, stranger
	known.Name, known.TLS.CA = "known", ca
	moved.Name, moved.URL, moved.TLS.CA = "moved", server.URL+"/s3cret/moved", ca
	down := Webhook{Name: "down", URL: "http://127.0.0.1:1/s3cret", Timeout: time.Minute}
	n, err := New(Config{Webhooks: []Webhook{known, stranger, moved, down}, Version: "1.2"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	results := n.Test(t.Context(), "", "ann", time.Now())
	statuses := []int{http.StatusOK, 0, http.StatusTemporaryRedirect, 0}
	for i, want := range []string{"", "certificate", "redirects are not followed", "refused"} {
		if results[i].Status != statuses[i] {
			t.Errorf("%s: status %d, want %d", results[i].Name, results[i].Status, statuses[i])
		}
		got := fmt.Sprint(results[i].Err)
		if want == "" && got != "<nil>" || !strings.Contains(got, want) || strings.Contains(got, "s3cret") {
			t.Errorf("%s: %s", results[i].Name, got)
		}
	}
	const begins = `POST application/json hotparam/1.2 {"version":1,`
	if text := <-got; !strings.HasPrefix(text, begins) || !strings.Contains(text, "asked for by ann") || len(got) > 0 {
		t.Error(text, len(got))
	}
	if len(n.Test(t.Context(), "nobody", "", time.Now())) != 0 {
		t.Error("a result for a webhook that is none")
	}
	for _, s := range n.senders {
		s.client.CloseIdleConnections()
	}
}
