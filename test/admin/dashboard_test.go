package admin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/report"
)

// TestDashboard_WorksInBrowser plays the first minutes of an operator with the page.
func TestDashboard_WorksInBrowser(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, config(t))
	w := watch(t, ctx, srv.URL)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), scheme("light"), chromedp.Navigate(srv.URL))
	seeHotKeys(t, ctx)
	findAndSort(t, ctx)
	setLimit(t, ctx)
	shots(t, ctx, "now")
	seeOtherViews(t, ctx)
	seeHistory(t, ctx)
	changeRules(t, ctx)
	traceClient(t, ctx)
	undoAndRemove(t, ctx)
	overrideNetwork(t, ctx)
	meetErrors(t, ctx)
	w.check(t)
	srv.CloseClientConnections()
	srv.Listener.Close()
	run(t, ctx, says("#banner:not([hidden])", "trying again"), says("#status .poor", "reconnecting"))
	shot(t, ctx, "gone")
}

func seeHotKeys(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx,
		until("document.querySelectorAll('#hot-table tbody tr').length == 4"),
		says("#allowed", "930"), says("#status", "breaker closed"), says("#hot-table", "topic?id=42"),
		says("#hot-table tr:nth-child(2) .rate", "× its baseline"), says("#hot-table tr:nth-child(2) .served", "85"),
		// Keys are shown as text, with escapes for invisible characters.
		says("#hot-table tr:nth-child(4) .key", "/<script>alert(1)</script>/U+202Egnp.exeU+000AU+FFFD"),
		until("document.querySelectorAll('main script').length == 0"))
}

func setLimit(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn(`[aria-label="Limit topic?id=42"]`), until("document.querySelector('#dialog').open"),
		until("document.querySelector('#f-key').value == 'topic?id=42' && document.activeElement.id == 'f-rate'"),
		fill("#f-rate", "40"), fill("#f-burst", "80"), fill("#f-reason", "a <b>rush</b>"), fill("#f-author", "ann"))
	run(t, ctx, says("#dialog-reach", "Now it would hold topic?id=42, "))
	shot(t, ctx, "dialog")
	run(t, ctx, clickOn("#dialog-save"),
		says("#overrides", "rules file"), says("#overrides tbody tr", "limit 40/s, burst 80"),
		says("#overrides tbody tr", "a <b>rush</b>by ann"),
		says("#hot-table tbody tr:nth-child(1) .badge", "override"),
		says("#hot-table tbody tr:nth-child(1)", "40/s, burst 80"),
		says("#events .override_put", "topic?id=42"), says("#toast", "Set topic?id=42 to limit 40/s"))
}

// seeOtherViews goes through the addresses of the page by its links.
func seeOtherViews(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn("#hot-table tbody tr:nth-child(1) th a"),
		until("location.pathname + location.search == '/key?key=topic%3Fid%3D42'"),
		says("#key-name", "topic?id=42"), says("#key-state", "hot"), says("#key-limits .applies", "40/s, burst 80"),
		says("#key-prefixes", "198.51.100.0/2438.8 %"), says("#key-classes", "crawler10 %"),
		says("#key-spellings li:nth-child(3)", "/topic?id=42<b>"),
		says("#key-limits .rests", "the override stands before it"), until("document.activeElement.id == 'view-key'"))
	run(t, ctx,
		until(
			"/Of [0-9,]+ requests this would have denied [0-9,]+/.test(document.querySelector('#w-result').textContent)"),
		until("document.querySelector('#w-rate').value == '40' && document.querySelector('#w-burst').value == '80'"),
		fill("#w-rate", "1000"), fill("#w-burst", "5000"), says("#w-result", "would have denied 0 (0 %)"),
		fill("#w-rate", "0"), says("#w-result", "Write a number from"),
		until("document.querySelector('#w-rate').getAttribute('aria-invalid')"),
		clickOn("#key-24h"),
		until("document.querySelector('#key-chart').getAttribute('aria-label').includes('at the end')"),
		clickOn("#key-15m"), fill("#w-rate", "30"), fill("#w-burst", "60"),
		says("#w-result", "requests this would have denied"))
	shots(t, ctx, "key")
	run(t, ctx, clickOn("#w-apply"), says("#toast", "Set topic?id=42 to limit 30/s"),
		says("#key-limits .applies", "limit 30/s"),
		clickOn("#toast-undo"), says("#key-limits .applies", "limit 40/s"))
	run(t, ctx, clickOn("#views a[href='/audit']"), says("#audit tbody tr", "topic?id=42"),
		says("#audit tbody", "set: limit 40/s, burst 80"),
		says("#parts", "breaker closed"), says("#limiters", "sidecar-1"), says("#upstreams-note", "none"),
		says("#ready", "ready"), until("document.title == '4 hot · Audit and health · hotparam · news'"))
	shots(t, ctx, "audit")
	run(t, ctx, clickOn("#views a[href='/overrides']"),
		until("document.querySelector('#views a[aria-current]').pathname == '/overrides'"),
		until("/^41[0-9]\\/s$/.test(document.querySelector('#overrides .pace').textContent)"),
		until("document.querySelector('#overrides .hits').textContent.length > 3"))
	shots(t, ctx, "overrides")
	run(t, ctx, until("(history.back(), history.back(), true)"), says("#key-name", "topic?id=42"),
		until("location.pathname + location.search == '/key?key=topic%3Fid%3D42'"))
	// A key that is not text has an address too, and nothing in it is markup.
	run(t, ctx, clickOn("#views a[href='/']"), clickOn("#hot-table tbody tr:nth-child(4) th a"),
		says("#key-name", "/<script>alert(1)</script>/U+202Egnp.exeU+000AU+FFFD"), says("#key-state", "hot"),
		clickOn("#views a[href='/']"))
}

// seeHistory looks closer at a week by keyboard, down to one minute.
func seeHistory(t *testing.T, ctx context.Context) {
	t.Helper()
	press := func(keys string) { run(t, ctx, chromedp.KeyEvent(keys)) }
	run(t, ctx, clickOn("#views a[href='/history']"), says("#history-keys", "<script>alert(1)</script>"),
		says("#heatmap-told", "A cell is 10m"),
		says("#history-events", "by <b>ann</b>"))
	shots(t, ctx, "history")
	run(t, ctx, clickOn("#history-spans a:nth-child(3)"), says("#heatmap-told", "A cell is 1h"),
		until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"))
	press(kb.End + kb.ArrowLeft + kb.ArrowDown)
	run(t, ctx, says("#heatmap-told", "topic?id=1337"))
	press(kb.Enter)
	run(t, ctx, says("#heatmap-told", "A cell is 10m"), until("/from=[0-9]+&to=[0-9]+/.test(location.search)"),
		until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"))
	press(kb.ArrowUp + kb.Enter)
	run(t, ctx, says("#heatmap-told", "A cell is 1m"), says("#minute-title", "The minute of"),
		says("#minute-table", "topic?id=42"),
		until("document.querySelector('#history-csv').href.includes('format=csv')"))
	shots(t, ctx, "minute")
	run(t, ctx, clickOn("#views a[href='/']"))
}

// changeRules compares two versions, pushes one that takes a rule away, with the second word, and rolls back.
func changeRules(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn("#views a[href='/rules']"), says("#running tbody", "100/s, burst 200"),
		says("#rules-from", "version 2, pushed by bob"), says("#versions tbody", "<b>ann</b>"),
		clickOn(`#versions [data-act="diff"]`), says("#rules-shown-title", "From version 1 to 2"),
		says("#rules-diff .removed", "rate: 50"), says("#rules-diff .added", "rate: 100"))
	shots(t, ctx, "rules")
	run(t, ctx, fill("#push-text", "rules: [{name: other, match: {path: /other}, params: [id], hot: {rate: 9}}]"),
		clickOn("#push-save"), says("#second-why", "takes away rule topic"))
	secondWord(t, ctx, "false")
	run(t, ctx, says("#toast", "it is version 3"), says("#rules-from", "version 3"),
		clickOn(`[aria-label="Roll back to it: version 2"]`))
	secondWord(t, ctx, "document.querySelector('#rules-from').textContent.includes('version 4')")
	run(t, ctx, says("#rules-from", "version 4"), says("#versions tbody", "back to version 2"),
		clickOn("#views a[href='/audit']"), says("#audit tbody", "version 4 pushed"),
		until(`/[A-Z]{3}|GMT|UTC/.test(document.querySelector("#audit time").textContent)`),
		clickOn("#views a[href='/']"))
}

// traceClient goes from a loop to its client.
func traceClient(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn("#loops a[href='/client?client=192.0.2.77']"), says("#trace tbody tr", "topic?id=99"),
		says("#trace tbody .denying", "denied"), says("#trace-note", "by 1 limiter"),
		says("#client-holds", "192.0.2.0/24"))
	shots(t, ctx, "client")
	run(t, ctx, clickOn("#views a[href='/']"))
}

// findAndSort turns the table of hot keys.
func findAndSort(t *testing.T, ctx context.Context) {
	t.Helper()
	rows := func(n int) chromedp.Action[chromedp.Void] {
		return until(fmt.Sprintf("document.querySelectorAll('#hot-table tbody tr').length == %d", n))
	}
	run(t, ctx, fill("#hot-find", "1337"), rows(1), says("#hot-table", "topic?id=1337"), fill("#hot-find", "nothing"),
		says("#hot-more", "no hot key matches"),
		until(
			"(document.querySelector('#hot-find').value = '', document.querySelector('#hot-find').dispatchEvent(new Event('input')))"), rows(4),
		clickOn("[data-sort=key]"), says("#hot-table tbody tr:nth-child(1)", "<script>"),
		until("document.querySelector('th[aria-sort=ascending]').textContent == 'Key'"),
		clickOn("[data-sort=rate]"), says("#hot-table tbody tr:nth-child(1)", "topic?id=42"),
		clickOn("#pause"), says("#pause-note", "as of"), clickOn("#pause"),
		until("document.querySelector('#pause-note').textContent == ''"))
}

func undoAndRemove(t *testing.T, ctx context.Context) {
	t.Helper()
	// Overrides of the rules file have no buttons.
	none := until("document.querySelectorAll('#overrides tbody button').length == 0")
	see := func(view string) chromedp.Action[chromedp.Void] { return clickOn("#views a[href='" + view + "']") }
	run(t, ctx, see("/overrides"), clickOn(`#overrides [data-act="extend"]`), says("#toast", "now holds until"),
		until("document.querySelector('#overrides .until').textContent.startsWith('1h 5')"),
		clickOn(`#overrides [data-act="undo"]`),
		until("document.querySelector('#overrides .until').textContent.match(/^5\\dm/)"),
		clickOn(`#overrides [data-act="remove"]`), none,
		says("#events .override_deleted", "topic?id=42"), see("/"))
	run(t, ctx, clickOn(`[aria-label="Block topic?id=1337"]`), clickOn("#dialog-save"))
	secondWord(t, ctx, "!document.querySelector('#dialog').open")
	run(t, ctx, says("#overrides .do-block", "topic?id=1337"))
	run(t, ctx, clickOn(`[aria-label="Clear topic?id=1337"]`), none)
	// The way back that the message offers.
	run(t, ctx, clickOn("#toast-undo"))
	secondWord(t, ctx, "document.querySelector('#overrides .do-block')")
	run(t, ctx, says("#overrides .do-block", "topic?id=1337"), see("/overrides"),
		clickOn(`#overrides [data-act="remove"]`), none)
}

func meetErrors(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn("#add-override"), until("document.activeElement.id == 'f-key'"),
		fill("#f-key", "topic?id=5"), says("#dialog-reach", "it matches none of the"), fill("#f-rate", "many"),
		clickOn("#dialog-save"), says("#e-rate", "Write a number"),
		until("document.querySelector('#f-rate').getAttribute('aria-invalid') == 'true'"),
		clickOn("#dialog-cancel"), until("!document.querySelector('#dialog').open"))
}

// overrideNetwork sets an override of clients and not of a key.
func overrideNetwork(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn("#views a[href='/overrides']"), clickOn("#add-override"),
		until("document.activeElement.id == 'f-key'"),
		until(
			"(document.querySelector('#f-kind').value = 'cidr', document.querySelector('#f-kind').dispatchEvent(new Event('change', {bubbles: true})))"),
		says("#h-key", "A network such as"), fill("#f-key", "203.0.113.0/24"), fill("#f-rate", "5"),
		clickOn("#dialog-save"),
		says("#overrides tbody tr", "network 203.0.113.0/24"), says("#toast", "Set network 203.0.113.0/24"),
		clickOn(`#overrides [data-act="edit"]`),
		until("document.querySelector('#f-kind').value == 'cidr' && document.querySelector('#f-kind').disabled"),
		fill("#f-rate", "7"), clickOn("#dialog-save"), says("#overrides tbody tr", "limit 7/s"),
		clickOn("#views a[href='/audit']"),
		says("#audit tbody tr", "network 203.0.113.0/24"), clickOn("#views a[href='/overrides']"))
}

// TestDashboard_WorksWhileQuiet checks the page while nothing is hot, the reports cannot be read, the
// token is asked for, and there is only a keyboard.
func TestDashboard_WorksWhileQuiet(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Access.Token, cfg.Loops = "s3cret-of-the-test", nil
	cfg.Hot = func() []hottype.HotKey { return nil }
	cfg.Reports = func(context.Context) ([]report.Limiter, error) {
		return nil, errors.New("redis: connection refused")
	}
	cfg.Status = func() []admin.Status { return []admin.Status{{Name: "redis", Value: "breaker open"}} }
	srv := serve(t, cfg)
	seen := watch(t, ctx, srv.URL, strings.Replace(srv.URL, "//", "//ann:s3cret-of-the-test@", 1))
	run(t, ctx, chromedp.EmulateViewport(1280, 900), scheme("light"),
		chromedp.Navigate(strings.Replace(srv.URL, "//", "//ann:s3cret-of-the-test@", 1)))
	run(t, ctx, says("#hot-empty", "hotparam explain URL"), says("#trouble:not([hidden])", "connection refused"),
		says("#status .poor", "breaker open"), says("#requests", "–"),
		says("#requests-note", "no limiter has reported"))
	shot(t, ctx, "quiet")
	press := func(keys string) { run(t, ctx, chromedp.KeyEvent(keys)) }
	run(t, ctx, clickOn("#views a[href='/overrides']"),
		until("(document.querySelector('#add-override').focus(), document.activeElement.id == 'add-override')"))
	press(kb.Enter)
	run(t, ctx, until("document.activeElement.id == 'f-key'"))
	press(kb.Escape)
	run(t, ctx, until("!document.querySelector('#dialog').open && document.activeElement.id == 'add-override'"))
	press(kb.Enter)
	run(t, ctx, until("document.activeElement.id == 'f-key'"))
	press("topic?id=5" + kb.Tab + kb.ArrowRight + kb.Enter)
	run(t, ctx, says("#overrides .do-block", "topic?id=5"), says("#overrides .do-block", "by ann"),
		says("#events", "Override set"))
	seen.check(t)
}
