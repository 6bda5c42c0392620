package admin_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// listen follows %d states of the stream, and returns how often each live region of the page changed, by its id. The
// page counts as read out once its regions were filled.
const listen = `new Promise((done) => {
	const live = "output, [role=status], [role=alert], [role=log], [aria-live]:not([aria-live=off])", changed = {};
	const seen = new MutationObserver((list) => {
		for (const n of new Set(list.map((m) => m.target.parentElement?.closest(live) ?? m.target.closest?.(live)))) {
			if (n) changed[n.id] = (changed[n.id] ?? 0) + 1;
		}
	});
	seen.observe(document.body, { subtree: true, childList: true, characterData: true });
	let states = 0;
	const stream = new EventSource("/v1/events");
	stream.addEventListener("state", () => {
		if (++states < %d) return;
		stream.close();
		seen.disconnect();
		done(changed);
	});
})`

// TestTraffic_IsReadOutRarely checks that no region of the page is read out because numbers change, and that one
// sentence sums up the news: at most three times in thirty seconds in which everything changes every second.
func TestTraffic_IsReadOutRarely(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	r := &restless{}
	srv := serve(t, r.config(t))
	putOverride(t, srv.URL, `{"key": "topic?id=42", "rate": 20, "for": "46m"}`)
	for view, ready := range everyView {
		states, most := 4, 1
		if view == "/" {
			ready, states, most = "#hot-table tbody tr", 30, 3
		}
		run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+view),
			until(fmt.Sprintf("document.querySelector(%q)", ready)),
			until("document.querySelector('#spoken').textContent != ''"),
			until("!document.querySelector('#w-result').checkVisibility() || document.querySelector('#w-result').textContent"))
		changed, err := chromedp.Run(ctx, chromedp.Evaluate[map[string]int](fmt.Sprintf(listen, states),
			chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v", view, changed)
		for id, n := range changed {
			if id != "spoken" || n > most {
				t.Errorf("%s: #%s was read out %d times in %d states", view, id, n, states)
			}
		}
		if view == "/" {
			run(t, ctx, says("#spoken", "289 keys are hot · first topic?id="))
			if changed["spoken"] == 0 {
				t.Error("nothing was read out in thirty seconds")
			}
		}
	}
}

// forced emulates a system that forces its colours on pages.
func forced(scheme string) chromedp.Action[chromedp.Void] {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"},
			{Name: "prefers-color-scheme", Value: scheme}}})
}

// unseenStates returns the things that only a colour of the page told, and that forced colours have taken away.
const unseenStates = `(() => {
	const lost = [], canvas = getComputedStyle(document.body).backgroundColor;
	if (!matchMedia("(forced-colors: active)").matches) lost.push("no colours are forced");
	const told = (style) => ![canvas, "rgba(0, 0, 0, 0)"].includes(style.backgroundColor) ||
		[style.borderTopWidth, style.borderBottomWidth].some((width) => width !== "0px");
	const parts = [[".dot", null], [".legend [class^=key-]", "::before"], [".number h3", "::before"]];
	for (const [selector, part] of parts) {
		for (const n of document.querySelectorAll(selector)) {
			if (n.checkVisibility() && !told(getComputedStyle(n, part))) lost.push(selector + " " + n.textContent);
		}
	}
	const differ = (a, b, names) => names.some((name) => getComputedStyle(a)[name] !== getComputedStyle(b)[name]);
	const [current, other] = ["[aria-current]", ":not([aria-current])"].map(
		(s) => document.querySelector("#views a" + s));
	if (current && !differ(current, other, ["color", "borderBottomWidth"])) lost.push("the current view");
	const checked = document.querySelector(".choice input:checked + span");
	const free = document.querySelector(".choice input:not(:checked) + span");
	if (checked?.checkVisibility() && !differ(checked, free, ["backgroundColor"])) lost.push("the choice");
	return lost;
})()`

// TestForcedColours_KeepStates checks each view, and the dialog, in the light and the dark colours of a system.
func TestForcedColours_KeepStates(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, cooling(config(t)))
	check := func(what string) {
		t.Helper()
		lost, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](unseenStates))
		if err != nil || len(lost) > 0 {
			t.Errorf("%s: %q, %v", what, lost, err)
		}
	}
	for view, ready := range everyView {
		run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+view),
			until(fmt.Sprintf("document.querySelector(%q)", ready)))
		for _, scheme := range []string{"light", "dark"} {
			run(t, ctx, forced(scheme))
			check(view + " " + scheme)
			if view == "/" || view == "/history" {
				shot(t, ctx, "forced"+view[1:]+"-"+scheme)
			}
		}
	}
	run(t, ctx, chromedp.Navigate(srv.URL), clickOn(`[aria-label="Limit topic?id=42"]`),
		until("document.querySelector('#dialog').open"))
	check("dialog")
	shot(t, ctx, "forced-dialog")
}

// TestFocus_GoesToTheNextRow checks that a row which goes hands the focus on, in a list of overrides and among hot
// keys.
func TestFocus_GoesToTheNextRow(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, config(t))
	w := watch(t, ctx, srv.URL)
	for _, id := range []string{"1", "2", "3"} { // the newest is the first
		putOverride(t, srv.URL, fmt.Sprintf(`{"key": "topic?id=%s", "rate": 20, "for": "46m"}`, id))
	}
	has := func(label string) chromedp.Action[chromedp.Void] {
		return until(fmt.Sprintf("document.activeElement.getAttribute('aria-label') == %q", label))
	}
	remove := func(id string) string { return "Remove: the override of topic?id=" + id }
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+"/overrides"),
		says("#overrides tbody", "topic?id=1"))
	tabTo(t, ctx, fmt.Sprintf("[aria-label='%s']", remove("2")))
	run(t, ctx, chromedp.KeyEvent(kb.Enter), has(remove("1")), chromedp.KeyEvent(kb.Enter),
		until("document.querySelectorAll('#overrides [data-act=remove]').length == 1"))
	// The row behind it is of the rules file and has no buttons, so the focus goes to the row before, and then to the
	// view.
	run(t, ctx, has(remove("3")), chromedp.KeyEvent(kb.Enter),
		until("document.querySelectorAll('#overrides [data-act=remove]').length == 0"),
		until("document.activeElement.matches('#view-overrides')"))

	run(t, ctx, clickOn("#views a[href='/']"), says("#hot-table tbody", "topic?id=42"))
	putOverride(t, srv.URL, `{"key": "topic?id=42", "rate": 20, "for": "46m"}`)
	tabTo(t, ctx, "[aria-label='Clear topic?id=42']")
	run(t, ctx, chromedp.KeyEvent(kb.Enter), has("Limit topic?id=42"))
	w.check(t)
}
