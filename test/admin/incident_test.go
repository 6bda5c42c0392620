package admin_test

import (
	"context"
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

// operatorTime is how long an operator may take from the first sight of the page to the last step. The rest of a busy
// machine is in it.
const operatorTime = time.Minute

// asks has clients ask for a target until the test ends, one after the other, so many times a second.
func (s *site) asks(t *testing.T, target string, perSecond int, clients ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			_ = s.statusFor(target, clients[i%len(clients)]) // what fails is asked for again
			<-tick.C
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// statusFor is what a client behind the trusted proxy is answered, 0 for nothing.
func (s *site) statusFor(target, client string) int {
	req, err := http.NewRequest(http.MethodGet, "http://"+s.addr+target, http.NoBody)
	if err != nil {
		return 0
	}
	req.Header.Set("X-Forwarded-For", client)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// TestIncidentByKeyboard against a real program: a topic goes viral while one client loops over another one. The
// operator finds the key, sees what the client asks for and blocks it, tries a limit for the key in shadow mode,
// enforces it and takes that back, all by keyboard and within a minute.
func TestIncidentByKeyboard(t *testing.T) {
	t.Parallel()
	program.Ours(t) // building them may take longer than a browser waits
	ctx := browser(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	s, dir := &site{freeport.Addr(t), freeport.Addr(t)}, t.TempDir()
	config := filepath.Join(dir, "hotparam.yaml")
	const rules = `
ip: {trusted_proxies: [127.0.0.0/8]}
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 15, window: 1s, min_clients: 5}}]
`
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", s.addr,
		"--admin.listen", s.admin, "--state.dir", filepath.Join(dir, "state"))
	s.ready(t)
	w := watch(t, ctx, "http://"+s.admin)
	readers := make([]string, 40)
	for i := range readers {
		readers[i] = fmt.Sprintf("198.51.100.%d", i+1)
	}
	const viral, loop = "/topic?id=%E4%B8%AD", "192.0.2.77"
	s.asks(t, "/topic?id=1", 2, readers...) // calm
	s.asks(t, viral, 50, readers...)
	s.asks(t, "/topic?id=99", 50, loop)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate("http://"+s.admin),
		says("#hot-table tbody tr", "topic?id="), says("#loops:not([hidden]) tbody", loop))

	began := time.Now()
	press := func(selector string) {
		t.Helper()
		tabTo(t, ctx, selector)
		run(t, ctx, chromedp.KeyEvent(kb.Enter))
	}
	// The client that loops: what it asks for, and the block.
	press("#loops tbody a[href='/client/" + loop + "']")
	run(t, ctx, says("#client-name", loop), says("#trace tbody tr", "topic?id=99"), says("#trace tbody tr", "allowed"))
	shot(t, ctx, "client")
	press(`#client-acts [data-act="block"]`)
	run(t, ctx, until("document.querySelector('#dialog').open"), chromedp.KeyEvent("a loop"+kb.Enter))
	secondWord(t, ctx, "!document.querySelector('#dialog').open")
	run(t, ctx, says("#toast", loop), says("#client-holds", "block"), says("#trace tbody", "denied"))
	if got := s.statusFor("/topic?id=99", loop); got < 400 {
		t.Errorf("the client that loops is answered %d", got)
	}
	if got := s.statusFor("/topic?id=99", "198.51.100.200"); got != http.StatusOK {
		t.Errorf("another client is answered %d", got)
	}
	// The viral key: found by a part of its name, a limit in shadow mode, enforced, taken back.
	press("#views a[href='/']")
	tabTo(t, ctx, "#hot-find")
	run(t, ctx, chromedp.KeyEvent("%E4"), until("document.querySelectorAll('#hot-table tbody tr').length == 1"))
	press("#hot-table tbody th a")
	run(t, ctx, says("#key-name", "topic?id=中"), says("#key-state", "hot"))
	tabTo(t, ctx, "#w-rate") // which selects what it holds
	run(t, ctx, chromedp.KeyEvent("2"), until("document.querySelector('#w-rate').value == '2'"))
	press("#w-shadow")
	run(t, ctx, says("#toast", "in shadow: limit 2/s"), says("#key-limits", "denies nobody"),
		until("/would have denied [1-9]/.test(document.querySelector('#key-limits').textContent)"))
	if got := s.statusFor(viral, readers[0]); got != http.StatusOK {
		t.Errorf("in shadow mode a reader is answered %d", got)
	}
	press(`#key-acts [data-act="enforce"]`)
	run(t, ctx, says("#toast", "Enforced"), says("#key-limits .applies", "limit 2/s"),
		until("parseFloat(document.querySelector('#key-denied').textContent.replace(',', '')) > 0"))
	press("#toast-undo")
	run(t, ctx, says("#toast", "Undone"), says("#key-limits", "denies nobody"))
	took := time.Since(began)
	if t.Logf("the operator took %v", took); took > operatorTime {
		t.Errorf("the operator took %v", took)
	}
	press("#views a[href='/audit']")
	run(t, ctx, says("#audit tbody", "set: block"), says("#audit tbody", "a loop"))
	w.check(t)
}
