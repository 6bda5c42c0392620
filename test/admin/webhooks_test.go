package admin_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// hooks are webhooks of which one fails, with an error that a stranger had a hand in.
type hooks struct{ fails string }

func (h hooks) Webhooks() []admin.Webhook {
	return []admin.Webhook{
		{Name: "oncall", Format: "alertmanager", Events: []string{"hot"}, Sent: 1312, At: time.Now()},
		{Name: "team-slack", Format: "slack", Events: []string{"hot"}, Sent: 97, Failed: 2, Error: h.fails,
			At: time.Now().Add(-40 * time.Second)},
	}
}

func (h hooks) Test(_ context.Context, name, _ string) []admin.WebhookTest {
	return []admin.WebhookTest{{Name: "oncall", OK: true, Status: 200, TookMS: 12},
		{Name: "team-slack", Error: h.fails, TookMS: 31}}
}

// receiver is a webhook's other end. It counts the test events, and answers one status.
func receiver(t *testing.T, status int) (url string, tests *atomic.Int64) {
	t.Helper()
	tests = &atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && strings.Contains(string(body), `"event":"test"`) {
			tests.Add(1)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<script>window.pwned=1</script>")
	}))
	t.Cleanup(srv.Close)
	return srv.URL, tests
}

// TestWebhooks_AreTriedOnPage runs by keyboard alone, against real receivers: one accepts the message, one refuses
// it, and one does not exist.
func TestWebhooks_AreTriedOnPage(t *testing.T) {
	t.Parallel()
	program.Ours(t) // building them may take longer than a browser waits
	ctx := browser(t)
	taking, taken := receiver(t, http.StatusAccepted)
	refusing, refused := receiver(t, http.StatusNotFound)
	s, dir := &site{freeport.Addr(t), freeport.Addr(t)}, t.TempDir()
	config := filepath.Join(dir, "hotparam.yaml")
	text := fmt.Sprintf(`rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s}}]
notifications:
  webhooks:
    - {name: ops, url: "%s/s3cret"}
    - {name: other, url: "%s/s3cret"}
    - {name: gone, url: "http://%s/s3cret"}
`, taking, refusing, freeport.Addr(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Launch(t, "hotparam", "serve", "--config", config, "--upstream", taking, "--listen", s.addr,
		"--admin.listen", s.admin, "--state.dir", filepath.Join(dir, "state"))
	s.ready(t)
	w := watch(t, ctx, "http://"+s.admin)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate("http://"+s.admin+"/audit"),
		says("#webhooks", "ops"))
	press := func(selector string) {
		tabTo(t, ctx, selector)
		run(t, ctx, chromedp.KeyEvent(kb.Enter))
	}
	row := func(name string) string { return fmt.Sprintf("#webhooks li:has([aria-label$=' %s'])", name) }
	press("#webhooks-test")
	run(t, ctx, says(row("ops")+" [role=status]", "test delivered: answered 202 after "),
		says(row("other")+" [role=status]", "test not delivered: answered 404 after "),
		says(row("gone")+" [role=status]", "test not delivered: dial tcp"),
		says(row("gone")+".poor .about", "connection refused"), // the list is asked for again
		until("document.activeElement.id == 'webhooks-test'"))
	if taken.Load() != 1 || refused.Load() != 1 {
		t.Errorf("%d and %d test events came, want one each", taken.Load(), refused.Load())
	}
	press(`[aria-label="Send a test to other"]`)
	program.Await(t, time.Minute, "the second test", func() bool { return refused.Load() == 2 })
	run(t, ctx, says(row("other")+" [role=status]", "answered 404"),
		until(`document.activeElement.matches('[aria-label="Send a test to other"]')`),
		until("!document.body.textContent.includes('s3cret') && !window.pwned"))
	if taken.Load() != 1 {
		t.Error("a test of one webhook reached another")
	}
	w.check(t)
}

// TestWebhooks_AreTriedByAdminsOnly also checks that an error is shown as text, with any markup in it.
func TestWebhooks_AreTriedByAdminsOnly(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Notify = hooks{"x509: certificate is valid for <img src=x onerror=window.pwned=1>\u202egnp, not for this"}
	tokens := map[auth.Role]string{}
	for role := auth.Viewer; role <= auth.Admin; role++ {
		tokens[role] = "hp_the-token-of-the-" + role.String()
		cfg.Access.Tokens = append(cfg.Access.Tokens,
			auth.Token{Name: role.String(), Role: role, Hash: sha256.Sum256([]byte(tokens[role]))})
	}
	srv := serve(t, cfg)
	for role, token := range tokens {
		ctx := browser(t) // one browser keeps to the first token that it was given
		run(t, ctx, chromedp.EmulateViewport(1280, 900),
			chromedp.Navigate(strings.Replace(srv.URL, "//", "//x:"+token+"@", 1)+"/audit"),
			says("#webhooks", "97 sent · 2 lost"), until("document.body.dataset.role == '"+role.String()+"'"))
		const offered = `[...document.querySelectorAll("#webhooks button")].filter((n) => n.checkVisibility()).length`
		if role != auth.Admin {
			run(t, ctx, until(offered+" == 0"))
			continue
		}
		run(t, ctx, until(offered+" == 3"), clickOn("#webhooks-test"), says("#webhooks", "answered 200 after 12 ms"),
			says("#webhooks .bad-result", "<img src=x onerror=window.pwned=1>U+202Egnp, not for this after 31 ms"),
			until("!document.querySelector('main img') && !window.pwned"))
	}
}
