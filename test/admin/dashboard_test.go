package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
)

// TestDashboardInBrowser is an operator's first minutes with the page.
func TestDashboardInBrowser(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, config(t))
	w := watch(t, ctx, srv.URL)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), scheme("light"), chromedp.Navigate(srv.URL))
	seeHotKeys(t, ctx)
	setLimit(t, ctx)
	shot(t, ctx, "light")
	run(t, ctx, scheme("dark"))
	shot(t, ctx, "dark")
	run(t, ctx, chromedp.EmulateViewport(380, 800), scheme("light"), until("innerWidth == 380"))
	run(t, ctx, until("document.documentElement.scrollWidth <= 380"))
	shot(t, ctx, "narrow")
	run(t, ctx, chromedp.EmulateViewport(1280, 900))
	undoAndRemove(t, ctx)
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
		// Keys are text, and what cannot be seen is shown.
		says("#hot-table tr:nth-child(4) .key", "/<script>alert(1)</script>/U+202Egnp.exeU+000AU+FFFD"),
		until("document.querySelectorAll('main script').length == 0"))
}

func setLimit(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn(`[aria-label="Limit topic?id=42"]`), until("document.querySelector('#dialog').open"),
		until("document.querySelector('#f-key').value == 'topic?id=42' && document.activeElement.id == 'f-rate'"),
		fill("#f-rate", "40"), fill("#f-burst", "80"), fill("#f-reason", "a <b>rush</b>"), fill("#f-author", "ann"))
	shot(t, ctx, "dialog")
	run(t, ctx, clickOn("#dialog-save"),
		says("#overrides", "rules file"), says("#overrides li", "limit 40/s, burst 80"), says("#overrides li", "a <b>rush</b> · by ann"),
		says("#hot-table tbody tr:nth-child(1) .badge:not([hidden])", "override"), says("#hot-table tbody tr:nth-child(1)", "40/s, burst 80"),
		says("#events .override_put", "topic?id=42"), says("#toast", "Set topic?id=42 to limit 40/s"))
}

func undoAndRemove(t *testing.T, ctx context.Context) {
	t.Helper()
	none := until("document.querySelectorAll('#overrides li button').length == 0") // what is left is the rules file's
	run(t, ctx, clickOn(`#overrides [data-act="undo"]`), none, says("#events .override_deleted", "topic?id=42"))
	run(t, ctx, clickOn(`[aria-label="Block topic?id=1337"]`), clickOn("#dialog-save"), says("#overrides .do-block", "topic?id=1337"))
	run(t, ctx, clickOn(`[aria-label="Clear topic?id=1337"]`), none)
	// The way back that the message offers.
	run(t, ctx, clickOn("#toast-undo"), says("#overrides .do-block", "topic?id=1337"), clickOn(`#overrides [data-act="remove"]`), none)
}

func meetErrors(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn("#add-override"), until("document.activeElement.id == 'f-key'"),
		fill("#f-key", "topic?id=5"), fill("#f-rate", "many"), clickOn("#dialog-save"), says("#e-rate", "Write a number"),
		until("document.querySelector('#f-rate').getAttribute('aria-invalid') == 'true'"),
		clickOn("#dialog-cancel"), until("!document.querySelector('#dialog').open"))
}

// TestQuietDashboardInBrowser: nothing is hot, the reports cannot be read, the
// token is asked for, and there is only a keyboard.
func TestQuietDashboardInBrowser(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Token, cfg.Loops = "s3cret-of-the-test", nil
	cfg.Hot = func() []hottype.Hot { return nil }
	cfg.Reports = func(context.Context) ([]hottype.Report, error) { return nil, errors.New("redis: connection refused") }
	cfg.Status = func() []admin.Status { return []admin.Status{{Name: "redis", Value: "breaker open"}} }
	srv := serve(t, cfg)
	seen := watch(t, ctx, srv.URL, strings.Replace(srv.URL, "//", "//ann:s3cret-of-the-test@", 1))
	run(t, ctx, chromedp.EmulateViewport(1280, 900), scheme("light"), chromedp.Navigate(strings.Replace(srv.URL, "//", "//ann:s3cret-of-the-test@", 1)))
	run(t, ctx, says("#hot-empty", "hotparam explain URL"), says("#trouble:not([hidden])", "connection refused"),
		says("#status .poor", "breaker open"), says("#requests", "–"), says("#requests-note", "no limiter has reported"))
	shot(t, ctx, "quiet")
	press := func(keys string) { run(t, ctx, chromedp.KeyEvent(keys)) }
	run(t, ctx, until("(document.querySelector('#add-override').focus(), document.activeElement.id == 'add-override')"))
	press(kb.Enter)
	run(t, ctx, until("document.activeElement.id == 'f-key'"))
	press(kb.Escape)
	run(t, ctx, until("!document.querySelector('#dialog').open && document.activeElement.id == 'add-override'"))
	press(kb.Enter)
	run(t, ctx, until("document.activeElement.id == 'f-key'"))
	press("topic?id=5" + kb.Tab + kb.ArrowRight + kb.Enter)
	run(t, ctx, says("#overrides .do-block", "topic?id=5"), says("#overrides .do-block", "by ann"), says("#events", "Override set"))
	seen.check(t)
}
