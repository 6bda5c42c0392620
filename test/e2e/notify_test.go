package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// told is the receiver of a webhook. It refuses the first message, and messages that are not signed.
type told struct {
	*httptest.Server
	mu     sync.Mutex
	asked  int
	events []string
	ids    map[string]int // how often each event came
	wrong  string
}

const webhookSecret = "a secret of the test"

func newTold(t *testing.T) *told {
	w := &told{ids: map[string]int{}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked++; w.asked == 1 {
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.take(r.Header.Get("Hotparam-Signature"), body)
	}))
	t.Cleanup(w.Close)
	return w
}

// genuine checks a signature by the recipe of docs/admin.md.
func genuine(secret, signature string, body []byte) bool {
	at, v1, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", at, body)
	seconds, err := strconv.ParseInt(at, 10, 64)
	return err == nil && hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(v1)) &&
		time.Since(time.Unix(seconds, 0)).Abs() < 5*time.Minute
}

// take records the events of a message.
func (w *told) take(signature string, body []byte) {
	if !genuine(webhookSecret, signature, body) {
		w.wrong = "signature " + signature
		return
	}
	var m struct {
		Events []struct {
			ID, Event, Key, Author string
			Ended                  bool
		}
	}
	if err := json.Unmarshal(body, &m); err != nil {
		w.wrong = err.Error()
	}
	for _, e := range m.Events {
		if e.Ended {
			e.Event += " ended"
		}
		w.ids[e.ID]++
		w.events = append(w.events, strings.TrimSpace(e.Event+" "+e.Key+" "+e.Author))
	}
}

// times returns the number of times an event was received.
func (w *told) times(event string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e == event {
			n++
		}
	}
	return n
}

func (w *told) has(event string) bool { return w.index(event) >= 0 }

func (w *told) index(event string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range w.events {
		if e == event {
			return i
		}
	}
	return -1
}

// A webhook receives that a topic goes viral and cools again and that another one is blocked, although the webhook
// fails at first.
func TestWebhook_ReceivesHotAndCold(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	hook := newTold(t)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", pipelineRules+fmt.Sprintf(
		"notifications:\n  webhooks:\n    - {name: ops, url: %s/s3cret-path, secret: %s}\n", hook.URL, webhookSecret))
	p := launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", addr,
		"--admin.listen", admin, "--state.dir", t.TempDir())
	ready(t, admin)
	program.Await(t, time.Minute, "hot", func() bool {
		for range 50 {
			get(t, "http://"+addr+"/topic?utm_source=x&id=42")
		}
		return hook.has("hot topic?id=42")
	})
	block := `{"key":"topic?id=7","action":"block","author":"ann"}`
	status, text := do(t, http.MethodPut, "http://"+admin+"/v1/overrides?confirm=true", block,
		http.Header{"Content-Type": {"application/json"}})
	if status/100 != 2 {
		t.Fatalf("PUT: %d %s", status, text)
	}
	program.Await(t, time.Minute, "the override", func() bool { return hook.has("override topic?id=7 ann") })
	program.Await(t, time.Minute, "cold", func() bool { return hook.has("cold topic?id=42") })
	if hook.index("cold topic?id=42") < hook.index("hot topic?id=42") || hook.wrong != "" {
		t.Errorf("%q %s", hook.events, hook.wrong)
	}
	status, text = do(t, http.MethodPost, "http://"+admin+"/v1/notifications/test?name=ops", "", nil)
	if status != http.StatusOK || !strings.Contains(text, `"ok":true`) || !hook.has("test") {
		t.Errorf("test: %d %s", status, text)
	}
	_, list := get(t, "http://"+admin+"/v1/notifications")
	_, metrics := get(t, "http://"+admin+"/metrics")
	if !strings.Contains(metrics, `hotparam_notify_retries_total{webhook="ops"} `) ||
		!strings.Contains(list, `"name":"ops"`) {
		t.Errorf("%s %s", list, metrics)
	}
	if all := p.Said() + list + metrics; strings.Contains(all, "s3cret") || !strings.Contains(all, "a key became hot") {
		t.Errorf("a secret is told, or a hot key is not in the log: %s", all)
	}
}
