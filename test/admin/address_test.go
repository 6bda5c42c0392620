package admin_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// address waits until the address of the page is a path with its query.
func address(path string) chromedp.Action[chromedp.Void] {
	return until(fmt.Sprintf("location.pathname + location.search == %q", path))
}

// again loads the page of the present address from its beginning, as a colleague does who was sent a link to it.
func again(t *testing.T, ctx context.Context) {
	t.Helper()
	at, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, ctx, reload(at))
}

// TestAddress_HasWhatIsShown checks that the address of a view shows a colleague the same search, order, page, span and
// minute, and that the browser's way back restores them.
func TestAddress_HasWhatIsShown(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Hot, cfg.Overrides = busy(289), manyOverrides(t)
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	value := func(selector, value string) chromedp.Action[chromedp.Void] {
		return until(fmt.Sprintf("document.querySelector(%q).value == %q", selector, value))
	}
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL), says("#hot-more", "1 to 50 of 289"),
		fill("#hot-find", "id=00"), says("#hot-table tbody", "topic?id=00000"), clickOn("[data-sort=clients]"),
		clickOn("#hot-after"), says("#hot-more", "51 to 100 of 289"), address("/?sort=clients&find=id%3D00&page=2"))
	again(t, ctx)
	run(t, ctx, says("#hot-more", "51 to 100 of 289"), value("#hot-find", "id=00"),
		until("document.querySelector('[aria-sort] button[data-sort=clients]')"),
		says("#hot-table tbody tr:nth-child(1)", "topic?id=00238"), // of the 289 the 51st from the most clients
		clickOn("#hot-table tbody tr:nth-child(1) th a"), says("#key-name", "topic?id=00238"),
		clickOn("#key-24h"), address("/key?key=topic%3Fid%3D00238&span=day"))
	aDay := until("document.querySelector('#key-24h').getAttribute('aria-pressed') == 'true'")
	run(t, ctx, until("(history.back(), true)"), says("#hot-more", "51 to 100 of 289"), value("#hot-find", "id=00"),
		until("(history.forward(), true)"), says("#key-name", "topic?id=00238"), aDay)
	again(t, ctx)
	run(t, ctx, says("#key-name", "topic?id=00238"), aDay,
		clickOn("#views a[href='/']"), address("/"), says("#hot-more", "1 to 50 of 289"), value("#hot-find", ""))

	run(t, ctx, clickOn("#views a[href='/overrides']"), says("#overrides-more", "1 to 50 of 10,00"),
		fill("#overrides-find", "id=77"), says("#overrides-more", "1 to 50 of 111"), clickOn("#overrides-after"),
		says("#overrides-more", "51 to 100 of 111"), address("/overrides?find=id%3D77&page=2"))
	again(t, ctx)
	run(t, ctx, says("#overrides-more", "51 to 100 of 111"), value("#overrides-find", "id=77"))

	run(t, ctx, chromedp.Navigate(srv.URL+"/history?last=hour"), says("#heatmap-told", "A cell is 1m"),
		until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"),
		chromedp.KeyEvent(kb.Home+kb.ArrowRight+kb.Enter),
		until(`/^.from=\d+&to=\d+&minute=\d+$/.test(location.search)`))
	const minute = "document.querySelector('#minute-title').textContent"
	chosen, err := chromedp.Run(ctx, chromedp.Evaluate[string](minute))
	if err != nil {
		t.Fatal(err)
	}
	again(t, ctx)
	run(t, ctx, until("!document.querySelector('#minute').hidden"), until(minute+" == '"+chosen+"'"))
	w.check(t)
}

// strokes presses the keys of characters as a keyboard does: a page that handles a key keeps its character out of
// fields.
func strokes(keys string) chromedp.Action[chromedp.Void] {
	var all []chromedp.Action[chromedp.Void]
	for _, key := range keys {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown,
			input.DispatchKeyEventTypeKeyUp} {
			event := input.DispatchKeyEventParams{Type: kind, Key: string(key)}
			if kind == input.DispatchKeyEventTypeKeyDown {
				event.Text = string(key)
			}
			all = append(all, call(input.DispatchKeyEvent, event))
		}
	}
	return chromedp.Steps(all...)
}

// TestKeys_WorkOnRows plays an incident with single keys: find, go to a row, limit it, copy its key, undo; and switches
// the keys off.
func TestKeys_WorkOnRows(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, config(t))
	w := watch(t, ctx, srv.URL)
	press := func(keys string) { run(t, ctx, strokes(keys)) }
	focus := func(label string) chromedp.Action[chromedp.Void] {
		return until(fmt.Sprintf("document.activeElement.getAttribute('aria-label') == %q", label))
	}
	// The clipboard of the test is a variable, because a browser without a window has no clipboard.
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL), says("#hot-table", "topic?id=42"),
		until("(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)"))
	press("?")
	run(t, ctx, until("document.querySelector('#keys').open"), says("#keys", "offer to undo my own last change"))
	shot(t, ctx, "keys")
	run(t, ctx, chromedp.KeyEvent(kb.Escape))
	run(t, ctx, until("!document.querySelector('#keys').open"))
	press("?")
	// The field of a dialog that has just closed has the focus until the page is drawn again.
	run(t, ctx, until("document.querySelector('#keys').open && document.activeElement.id == 'keys-on'"),
		until(`(document.querySelector('#keys').close(), document.activeElement.dispatchEvent(
			new KeyboardEvent('keydown', {key: 'u', bubbles: true})), true)`))
	run(t, ctx, says("#toast", "You have changed nothing yet"))
	press("/")
	run(t, ctx, until("document.activeElement.id == 'hot-find'"))
	press("jb/") // in a field they are letters
	run(t, ctx, until("document.querySelector('#hot-find').value == 'jb/'"), fill("#hot-find", "4"),
		says("#hot-table tbody tr:nth-child(1)", "topic?id=42"), until("(document.activeElement.blur(), true)"))
	press("j")
	run(t, ctx, until("document.activeElement.textContent == 'topic?id=42'"))
	press("c")
	run(t, ctx, says("#toast", "Copied topic?id=42"), until("window.copied == 'topic?id=42'"))
	press("l")
	run(t, ctx, until("document.querySelector('#dialog').open"), fill("#f-author", "ann"), clickOn("#dialog-save"),
		says("#toast", "Set topic?id=42 to limit 100/s"), until("!document.querySelector('#dialog').open"))

	// The page knows the person's name after it is loaded again, and a change of a colleague is not the person's own.
	putOverride(t, srv.URL, `{"key": "topic?id=1337", "rate": 20, "author": "bob"}`)
	run(t, ctx, chromedp.Navigate(srv.URL+"/key?key=topic%3Fid%3D1337"), says("#key-name", "topic?id=1337"),
		until("(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)"),
		clickOn("#key-copy"), until("window.copied == 'topic?id=1337'"))
	press("b")
	run(t, ctx, until("document.querySelector('#dialog').open && document.querySelector('#f-key').value == 'topic?id=1337'"))
	run(t, ctx, chromedp.KeyEvent(kb.Escape))
	run(t, ctx, until("!document.querySelector('#dialog').open"))
	press("u")
	run(t, ctx, says("#toast", "Your last change: topic?id=42: limit 100/s"),
		until("document.activeElement.id == 'toast-undo'"))
	run(t, ctx, chromedp.KeyEvent(kb.Enter))
	run(t, ctx, says("#toast", "Undone: the override is gone"))

	press("?")
	run(t, ctx, clickOn("#keys-on"))
	run(t, ctx, chromedp.KeyEvent(kb.Escape))
	run(t, ctx, until("!document.querySelector('#keys').open"), chromedp.Navigate(srv.URL),
		says("#hot-table", "topic?id=42"))
	press("/?uj")
	run(t, ctx, until("document.activeElement === document.body && !document.querySelector('#keys').open"),
		clickOn("#keys-open"), clickOn("#keys-on"))
	run(t, ctx, chromedp.KeyEvent(kb.Escape))
	run(t, ctx, until("!document.querySelector('#keys').open"))
	press("j")
	run(t, ctx, until("document.activeElement.closest('#hot-table')"))
	press("x")
	run(t, ctx, until("document.querySelector('#dialog').open"), until("document.querySelector('#dialog [value=exempt]').checked"))
	run(t, ctx, chromedp.KeyEvent(kb.Escape))
	run(t, ctx, focus("Exempt topic?id=42"))
	w.check(t)
}
