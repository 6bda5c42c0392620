package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
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
	const ruleText = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s}}]\n"
	if err := os.WriteFile(config, []byte(ruleText), 0o600); err != nil {
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
	view("/")
	run(t, ctx, says("#hot-table tbody tr", "topic?id=viral"),
		until("Number(document.querySelector('#would').textContent) > 0"),
		until("/^Enforce: denies [1-9][0-9]* %$/.test(document.querySelector('#hot-table [data-act=enforce]').textContent)"))
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

// TestShadow_IsVisible checks that requests which shadow mode would deny are counted on the page, in colours and in
// shape, and that a row offers to enforce the override that is tried.
func TestShadow_IsVisible(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg, tried := config(t), rules.Override{Key: "topic?id=42", Action: rules.ActionLimit, Mode: hottype.ModeShadow}
	cfg.Reports = func(context.Context) ([]report.Limiter, error) {
		list := liveReports(time.Now())
		list[0].Keys[0] = report.KeyDecisions{Key: "topic?id=42", Allowed: 4 * list[0].Keys[0].Allowed,
			WouldDeny: 3 * list[0].Keys[0].Allowed}
		list[0].WouldDeny = list[0].Keys[0].WouldDeny
		list[0].OverrideHits = []report.OverrideHits{{ID: tried.DefaultID(), N: list[0].Keys[0].Allowed,
			WouldDeny: list[0].WouldDeny}}
		return list, nil
	}
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	putOverride(t, srv.URL, `{"key": "topic?id=42", "rate": 100, "mode": "shadow", "for": "1h"}`)
	run(t, ctx, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(srv.URL))
	row := "#hot-table tbody tr.would-deny "
	run(t, ctx, until("document.querySelector('"+row+".tries')?.textContent == '300'"),
		says(row+"[data-act=enforce]", "Enforce: denies 75 %"), until("document.querySelector('#would').textContent == '300'"),
		until("document.querySelector('#strip-would').checkVisibility()"),
		until("document.querySelector('#chart').getAttribute('aria-label').includes('300 would be denied')"))
	for _, width := range []int64{1440, 1280, 1000, 820, 390} {
		for _, look := range []string{"light", "dark"} {
			run(t, ctx, chromedp.EmulateViewport(width, 900), scheme(look),
				until(fmt.Sprintf("innerWidth == %d && document.documentElement.scrollWidth <= %d", width, width)),
				until("document.querySelector('#hot-table').scrollWidth <= document.querySelector('#hot').clientWidth - 20"))
			shotOf(t, ctx, fmt.Sprintf("shadow-%d-%s", width, look), chromedp.CaptureScreenshot())
		}
	}
	run(t, ctx, chromedp.EmulateViewport(1440, 900), forced("dark"))
	shotOf(t, ctx, "shadow-forced", chromedp.CaptureScreenshot())
	run(t, ctx, scheme("light"), clickOn("[data-sort=would]"), says("#hot-table tbody tr:nth-child(1)", "topic?id=42"),
		clickOn("#hot-table tbody tr:nth-child(1) th a"), says("#key-would", "would deny 300/s in shadow mode"),
		says("#key-acts [data-act=enforce]", "Enforce: denies 75 %"),
		until("document.querySelector('#key-chart').getAttribute('aria-label').includes('300 would be denied')"))
	shotOf(t, ctx, "shadow-key", chromedp.CaptureScreenshot())
	run(t, ctx, chromedp.Navigate(srv.URL+"/rules"), says("#running tbody", "would deny 300/s in shadow mode"),
		chromedp.Navigate(srv.URL+"/history?last=hour"),
		until("document.querySelector('#minute-table [data-label=\"Would deny\"]')?.textContent == '7'"),
		chromedp.Navigate(srv.URL+"/history"), says("#heatmap-told", "A cell is 10m"),
		until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"))
	for range 30 { // the key was hot every two and a half hours
		run(t, ctx, chromedp.KeyEvent(kb.ArrowRight))
		told, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.querySelector('#heatmap-told').textContent"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(told, "3 would be denied in shadow mode") {
			break
		}
	}
	run(t, ctx, says("#heatmap-told", "3 would be denied in shadow mode"),
		chromedp.Navigate(srv.URL+"/key?key=topic%3Fid%3D42"), clickOn("#key-acts [data-act=enforce]"))
	secondWord(t, ctx, "document.querySelector('#toast').textContent.includes('Enforced')")
	run(t, ctx, says("#toast", "Enforced: topic?id=42, limit 100/s"))
	w.check(t)
}

// TestRule_IsEnforcedWhereItIsSeen enforces the limit of a rule of the store, which is in shadow mode: the page says
// what it denies, asks for a second word, and the rules say so afterwards.
func TestRule_IsEnforcedWhereItIsSeen(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	text := strings.Replace(rulesFile, "burst: 200}", "burst: 200, mode: shadow} # until Monday", 1)
	pushed := &central{}
	if _, err := pushed.Change(t.Context(), rules.AnyVersion, rules.Revision{Text: text, Author: "ann",
		At: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	cfg.Central = pushed
	cfg.Rules = func() *rules.Set {
		pushed.mu.Lock()
		defer pushed.mu.Unlock()
		set, err := rules.Parse("rules.yaml", []byte(pushed.stored.Text))
		if err != nil {
			t.Error(err)
		}
		return set
	}
	cfg.Reports = func(context.Context) ([]report.Limiter, error) {
		list := liveReports(time.Now())
		n := list[0].Keys[0].Allowed
		list[0].Keys[0] = report.KeyDecisions{Key: "topic?id=42", Allowed: 4 * n, WouldDeny: 3 * n}
		list[0].Keys[1] = report.KeyDecisions{Key: "topic?id=1337"}
		return list, nil
	}
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	const button = "#running [data-id=topic] [data-act=enforce]"
	run(t, ctx, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(srv.URL),
		says("#hot-table tbody tr:nth-child(1) .limit a", "Enforce: denies 75 %"),
		until("!document.querySelector('#hot-table tbody tr:nth-child(3) .limit a').checkVisibility()"))
	shotOf(t, ctx, "rule-enforce-row", chromedp.CaptureScreenshot())
	run(t, ctx, clickOn("#hot-table tbody tr:nth-child(1) .limit a"), address("/rules"),
		says(button, "Enforce: denies 75 %"), until("!document.querySelector('#running [data-id=\"*\"] [data-act]')"))
	for _, m := range modes {
		run(t, ctx, m.set(), until(fmt.Sprintf("document.querySelector('%s').checkVisibility()", button)))
		shotOf(t, ctx, "rule-enforce-"+m.String(), chromedp.CaptureScreenshot())
	}
	// The rows are drawn again every five seconds, and the focus stays.
	tabTo(t, ctx, button)
	run(t, ctx, until(fmt.Sprintf("(window.was = document.querySelector('%s'), true)", button)),
		until(fmt.Sprintf("document.querySelector('%[1]s') != window.was && document.activeElement.matches('%[1]s')", button)),
		chromedp.KeyEvent(kb.Enter), says("#second-why", " requests a second, 75 % of those for its keys"))
	secondWord(t, ctx, "false")
	run(t, ctx, says("#toast", "Enforced the limit of rule topic: version 2 now."),
		until(fmt.Sprintf("!document.querySelector('%s')", button)),
		says("#versions tbody", "enforce the limit of rule topic"))
	if got := pushed.stored.Text; got != strings.Replace(text, "mode: shadow", "mode: enforce", 1) {
		t.Error(got)
	}
	w.check(t)
}
