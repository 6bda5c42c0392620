package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
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

// asks has the clients in turn request a target, perSecond times a second, until the test ends. It counts the requests
// that were not answered with 200.
func (s *site) asks(t *testing.T, target string, perSecond int, clients ...string) (refused *atomic.Int64) {
	refused = &atomic.Int64{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			if s.statusFor(target, clients[i%len(clients)]) != http.StatusOK {
				refused.Add(1)
			}
			<-tick.C
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return refused
}

// statusFor returns the status of the response to a client behind the trusted proxy, or 0 if there is no response.
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

// incidentLength returns how long the site is under load: INCIDENT (make incident: 5m), or 0 to end after the last
// step.
func incidentLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("INCIDENT")
	if text == "" {
		return 0
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("INCIDENT: %v", err)
	}
	return length
}

// operator works with the page by keyboard.
type operator struct {
	*testing.T
	ctx  context.Context
	site *site
}

func (o operator) press(selector string) {
	o.Helper()
	tabTo(o.T, o.ctx, selector)
	run(o.T, o.ctx, chromedp.KeyEvent(kb.Enter))
}

// answered checks whether a request of a client is allowed now.
func (o operator) answered(target, client string, allowed bool) {
	o.Helper()
	if got := o.site.statusFor(target, client); got == 0 || allowed != (got == http.StatusOK) {
		o.Errorf("%s is answered %d for %s", client, got, target)
	}
}

const viral, looped, loop, reader = "/topic?id=%E4%B8%AD", "/topic?id=99", "192.0.2.77", "198.51.100.1"

// TestIncident_IsHandledByKeyboard runs against a real program: a topic goes viral while one client loops over another
// one. The operator finds the key, sees which targets the client requests and blocks it, tries a limit for the key in
// shadow mode, enforces it and takes that back, all by keyboard and within a minute. With INCIDENT, the site is calm
// for a fifth of that time, and the page still shows the incident at its end.
func TestIncident_IsHandledByKeyboard(t *testing.T) {
	t.Parallel()
	length := incidentLength(t)
	program.Ours(t) // building them may take longer than a browser waits
	ctx := browserFor(t, mostOfTest+length)
	s := serveIncident(t, "")
	w := watch(t, ctx, "http://"+s.admin)
	readers := make([]string, 40)
	for i := range readers {
		readers[i] = fmt.Sprintf("198.51.100.%d", i+1)
	}
	end := time.Now().Add(length)
	calm := s.asks(t, "/topic?id=1", 2, readers...)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate("http://"+s.admin))
	time.Sleep(length / 5) // the programs have clocks of their own
	s.asks(t, viral, 50, readers...)
	s.asks(t, looped, 50, loop)
	run(t, ctx, says("#hot-table tbody tr", "topic?id="), says("#loops:not([hidden]) tbody", loop))
	o, began := operator{t, ctx, s}, time.Now()
	o.blockLoop()
	o.limitViral()
	took := time.Since(began)
	if t.Logf("the operator took %v", took); took > operatorTime {
		t.Errorf("the operator took %v", took)
	}
	time.Sleep(time.Until(end))
	o.press("#views a[href='/']")
	run(t, ctx, says("#hot-table tbody tr", "topic?id="), says("#status .good", "live"))
	o.answered(looped, loop, false)
	o.answered(viral, reader, true)
	if n := calm.Load(); n > 0 {
		t.Errorf("%d readers of another topic were refused", n)
	}
	o.press("#views a[href='/audit']")
	run(t, ctx, says("#audit tbody", "set: block"), says("#audit tbody", "a loop"))
	w.check(t)
}

// serveIncident starts `hotparam serve` in front of a site that always answers. More follows the criteria of its rule.
func serveIncident(t *testing.T, more string) *site {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	s, dir := &site{freeport.Addr(t), freeport.Addr(t)}, t.TempDir()
	config := filepath.Join(dir, "hotparam.yaml")
	rules := `
ip: {trusted_proxies: [127.0.0.0/8]}
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 15, window: 1s, min_clients: 5}` + more + `}]
`
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", s.addr,
		"--admin.listen", s.admin, "--state.dir", filepath.Join(dir, "state"))
	s.ready(t)
	return s
}

// blockLoop finds the targets of the client that loops, and blocks the client.
func (o operator) blockLoop() {
	o.Helper()
	t, ctx := o.T, o.ctx
	o.press("#loops tbody a[href='/client?client=" + loop + "']")
	run(t, ctx, says("#client-name", loop), says("#trace tbody tr", "topic?id=99"), says("#trace tbody tr", "allowed"))
	shot(t, ctx, "client")
	o.press(`#client-acts [data-act="block"]`)
	run(t, ctx, until("document.querySelector('#dialog').open"), chromedp.KeyEvent("a loop"+kb.Enter))
	secondWord(t, ctx, "!document.querySelector('#dialog').open")
	run(t, ctx, says("#toast", loop), says("#client-holds", "block"), says("#trace tbody", "denied"))
	o.answered(looped, loop, false)
	o.answered(looped, "198.51.100.200", true)
}

// limitViral finds the viral key by a part of its name, tries a limit in shadow mode, enforces it and takes that back.
func (o operator) limitViral() {
	o.Helper()
	t, ctx := o.T, o.ctx
	o.press("#views a[href='/']")
	tabTo(t, ctx, "#hot-find")
	run(t, ctx, chromedp.KeyEvent("%E4"), until("document.querySelectorAll('#hot-table tbody tr').length == 1"))
	o.press("#hot-table tbody th a")
	run(t, ctx, says("#key-name", "topic?id=中"), says("#key-state", "hot"))
	tabTo(t, ctx, "#w-rate") // the focus selects the text of the field
	run(t, ctx, chromedp.KeyEvent("2"), until("document.querySelector('#w-rate').value == '2'"))
	o.press("#w-shadow")
	run(t, ctx, says("#toast", "in shadow: limit 2/s"), says("#key-limits", "denies no request"),
		until("/would have denied [1-9]/.test(document.querySelector('#key-limits').textContent)"))
	o.answered(viral, reader, true)
	o.press(`#key-acts [data-act="enforce"]`)
	run(t, ctx, says("#toast", "Enforced"), says("#key-limits .applies", "limit 2/s"),
		until("parseFloat(document.querySelector('#key-denied').textContent.replace(',', '')) > 0"))
	o.press("#toast-undo")
	run(t, ctx, says("#toast", "Undone"), says("#key-limits", "denies no request"))
}
