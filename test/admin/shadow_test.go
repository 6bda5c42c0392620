package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// TestOperator_TriesLimitInShadow runs against a real program, by keyboard alone: a limit goes from what-if to shadow
// mode, without effect, and the list shows how many requests it would have denied; one step enforces it, and undo takes
// that back.
func TestOperator_TriesLimitInShadow(t *testing.T) {
	t.Parallel()
	program.Ours(t) // building them may take longer than a browser waits
	ctx := browser(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	s, dir := &site{freeport.Addr(t), freeport.Addr(t)}, t.TempDir()
	config := filepath.Join(dir, "hotparam.yaml")
	const rules = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s}}]\n"
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", s.addr,
		"--admin.listen", s.admin, "--state.dir", filepath.Join(dir, "state"))
	s.ready(t)
	w := watch(t, ctx, "http://"+s.admin)
	s.rush(t, "/topic?id=viral")
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate("http://"+s.admin+"/key/topic%3Fid=viral"),
		until("document.querySelector('#key-limits li')"))
	tabTo(t, ctx, "#w-rate") // the focus selects the text of the field
	run(t, ctx, chromedp.KeyEvent("2"), until("document.querySelector('#w-rate').value == '2'"))
	tabTo(t, ctx, "#w-shadow")
	run(t, ctx, chromedp.KeyEvent(kb.Enter), says("#toast", "in shadow: limit 2/s"),
		says("#key-limits", "denies no request"))
	for range 20 {
		if got := s.status(t, "/topic?id=viral"); got != http.StatusOK {
			t.Fatalf("in shadow mode a request is answered %d", got)
		}
	}
	view := func(path string) {
		tabTo(t, ctx, "#views a[href='"+path+"']")
		run(t, ctx, chromedp.KeyEvent(kb.Enter), until(fmt.Sprintf("location.pathname == %q", path)))
	}
	view("/overrides")
	run(t, ctx, until("/would have denied [1-9]/.test(document.querySelector('#overrides .would').textContent)"))
	tabTo(t, ctx, `#overrides [data-act="edit"]`)
	run(t, ctx, chromedp.KeyEvent(kb.Enter), until("document.querySelector('#dialog').open && "+
		"document.querySelector('#f-mode').checkVisibility() && document.querySelector('#f-mode').value == 'shadow'"),
		chromedp.KeyEvent(kb.Escape), until("!document.querySelector('#dialog').open"))
	tabTo(t, ctx, `#overrides [data-act="enforce"]`)
	run(t, ctx, chromedp.KeyEvent(kb.Enter), says("#toast", "Enforced: topic?id=viral, limit 2/s"),
		until("!document.querySelector('#overrides [data-act=enforce]') && document.activeElement.closest('[data-id]')"))
	program.Await(t, time.Minute, "a request to be refused",
		func() bool { return s.status(t, "/topic?id=viral") >= 400 })
	tabTo(t, ctx, `#overrides [data-act="undo"]`)
	run(t, ctx, chromedp.KeyEvent(kb.Enter), says("#toast", "is back to in shadow: limit 2/s"),
		until("document.querySelector('#overrides [data-act=enforce]')"))
	for range 20 {
		if got := s.status(t, "/topic?id=viral"); got != http.StatusOK {
			t.Fatalf("after the undo a request is answered %d", got)
		}
	}
	view("/audit")
	run(t, ctx, says("#audit tbody", "set: in shadow: limit 2/s"),
		until("document.querySelectorAll('#audit tbody tr').length == 3"))
	w.check(t)
}
