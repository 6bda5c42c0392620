package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/test/internal/program"
)

// restless has 289 hot keys, each time in another order. The key that cold names is not hot.
type restless struct {
	turn, broken atomic.Int64
	cold         atomic.Pointer[string]
}

func (r *restless) hot() []hottype.HotKey {
	turn, since := r.turn.Add(1), time.Now().Add(-time.Minute)
	var keys []hottype.HotKey
	for i := range int64(289) {
		name := fmt.Sprintf("topic?id=%03d", i)
		if cold := r.cold.Load(); cold != nil && *cold == name {
			continue
		}
		keys = append(keys, hotKey(name, "topic", float64(300+(i*7919+turn*104_729)%997), since))
	}
	slices.SortFunc(keys, func(a, b hottype.HotKey) int { return int(b.Rate - a.Rate) })
	return keys
}

// loops has as many loops, each by another client each time.
func (r *restless) loops() []hottype.HotKey {
	turn := r.turn.Load()
	var keys []hottype.HotKey
	for i := range int64(6) {
		h := hotKey(fmt.Sprintf("topic?id=loop%d", i), "topic", 400, time.Now().Add(-time.Minute))
		h.Clients, h.HeaviestClient, h.ClientShare = 3, fmt.Sprintf("192.0.2.%d", (turn+i)%200+1), 0.9
		keys = append(keys, h)
	}
	return keys
}

func (r *restless) reports(context.Context) ([]report.Limiter, error) {
	if r.broken.Load() > 0 {
		return nil, errors.New("redis: connection refused")
	}
	return liveReports(time.Now()), nil
}

func (r *restless) config(t *testing.T) admin.Config {
	t.Helper()
	cfg := config(t)
	cfg.Hot, cfg.Loops, cfg.Reports = r.hot, r.loops, r.reports
	return cfg
}

// point moves the mouse over a button of a list and returns the label of the button below it.
func point(t *testing.T, ctx context.Context, list, button string) (label string) {
	t.Helper()
	see := until(fmt.Sprintf(`(() => {
		const n = document.querySelector(%q);
		if (!n?.checkVisibility()) return false;
		n.scrollIntoView({ block: "center", behavior: "instant" });
		const { left, top, width, height } = n.getBoundingClientRect();
		window.pointer = [left + width / 2, top + height / 2];
		return n.contains(document.elementFromPoint(...window.pointer));
	})()`, list+" "+button))
	move := func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		at, err := chromedp.Evaluate[[]float64]("window.pointer")(ctx, t)
		if err != nil {
			return chromedp.Void{}, err
		}
		return call(input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: input.DispatchMouseEventTypeMouseMoved,
			X:    at[0], Y: at[1]})(ctx, t)
	}
	// The list may change or move between this query and the move of the mouse. So the loop waits for a button below
	// the pointer, and tries again if there is none.
	over := fmt.Sprintf("!!document.querySelector('%s button:hover')", list)
	program.Await(t, time.Minute, "a button below the pointer", func() bool {
		run(t, ctx, see, move)
		over, err := chromedp.Run(ctx, chromedp.Evaluate[bool](over))
		return err == nil && over
	})
	return below(t, ctx)
}

// below returns the label of the button below the mouse.
func below(t *testing.T, ctx context.Context) string {
	t.Helper()
	label, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		"document.elementFromPoint(...window.pointer)?.closest('button')?.getAttribute('aria-label') ?? ''"))
	if err != nil {
		t.Fatal(err)
	}
	return label
}

// click presses and releases the mouse at its position.
func click(t *testing.T, ctx context.Context) {
	t.Helper()
	at, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64]("window.pointer"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed,
		input.DispatchMouseEventTypeMouseReleased} {
		run(t, ctx, call(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: at[0], Y: at[1],
			Button: input.MouseButtonLeft, ClickCount: 1}))
	}
}

// TestRows_HoldStillUnderThePointer checks that the key or client below a resting pointer stays the same, whatever
// changes in the list and above it. An entry that has left the list turns grey, and a click on it is refused.
func TestRows_HoldStillUnderThePointer(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	r := &restless{}
	srv := serve(t, r.config(t))
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL), says("#hot-more", "1 to 50 of 289"))
	for _, c := range []struct{ list, row, more string }{
		{"#hot", "tr:nth-child(20)", "#hot-more-keys"}, {"#loops", "tr:nth-child(3)", "#loops .more"}} {
		label := point(t, ctx, c.list+" tbody", c.row+" [data-act=block]")
		name := strings.TrimPrefix(strings.TrimPrefix(label, "Block "), "client ")
		run(t, ctx, until(fmt.Sprintf(
			"(n => !n.hidden && /[0-9]+ change/.test(n.textContent))(document.querySelector(%q))", c.more)),
			until(fmt.Sprintf("document.querySelector('%s .gone')", c.list)))
		r.broken.Store(1 - r.broken.Load()) // the card of troubles above comes, and goes the second time
		run(t, ctx, until(fmt.Sprintf("document.querySelector('#trouble').hidden == %t", r.broken.Load() == 0)))
		if c.list == "#hot" {
			r.cold.Store(&name)
		}
		// Another state has come when a rate of the list has changed.
		run(t, ctx, until("(window.was = document.querySelector('#hot-table').textContent, true)"),
			until("window.was != document.querySelector('#hot-table').textContent"))
		if now := below(t, ctx); now != label || label == "" {
			t.Errorf("%s: %q is below the pointer now, %q was", c.list, now, label)
		}
		shot(t, ctx, "still-"+c.list[1:])
		click(t, ctx)
		run(t, ctx, until("document.querySelector('#dialog').open"), says("#dialog-title", name),
			until(fmt.Sprintf("document.querySelector('#f-key').value == %q", name)),
			clickOn("#dialog-save"), says("#e-form", "; nothing was stored: set it again to confirm"),
			clickOn("#dialog-save"), says("#toast", "Set "), says("#toast", name),
			until("!document.querySelector('#dialog').open"))
		// The focus is back in the list, which holds its rows until the new list is asked for. The next change may come
		// at once, so that the list is looked at as soon as its own listener has run.
		run(t, ctx, until(fmt.Sprintf("document.querySelector('%s tbody').contains(document.activeElement)", c.list)),
			until(fmt.Sprintf(`(() => {
				const [list, more] = ["%s", "%s"].map((s) => document.querySelector(s));
				window.renewed = false;
				more.addEventListener("click", () => { window.renewed = more.hidden && !list.querySelector(".gone"); });
				return true;
			})()`, c.list, c.more)), clickOn(c.more), until("window.renewed"))
	}
}

// TestRows_HoldStillUnderTheFocus: the row that has the focus keeps its key and its place on the screen.
func TestRows_HoldStillUnderTheFocus(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	r := &restless{}
	srv := serve(t, r.config(t))
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL), says("#hot-more", "1 to 50 of 289"))
	run(t, ctx, until(`(() => {
		const button = document.querySelector("#hot tbody tr:nth-child(9) [data-act=limit]");
		if (!button?.checkVisibility()) return false;
		button.focus();
		window.row = [button.closest("tr"), button.getAttribute("aria-label"), button.getBoundingClientRect().top];
		return true;
	})()`), until("/[0-9]+ change/.test(document.querySelector('#hot-more-keys').textContent)"))
	r.broken.Store(1)
	run(t, ctx, until("!document.querySelector('#trouble').hidden"), until(`(() => {
		const [row, label, top] = window.row, now = document.activeElement;
		return now.closest("tr") === row && now.getAttribute("aria-label") === label &&
			Math.abs(now.getBoundingClientRect().top - top) < 2;
	})()`))
}

// timers replaces the long timers of the page by a list that a test ends by hand.
const timers = `(() => {
	const set = window.setTimeout, clear = window.clearTimeout;
	window.long = new Map();
	window.setTimeout = (f, ms, ...more) => {
		if (ms < 9000) return set(f, ms, ...more);
		const id = -1 - window.long.size;
		window.long.set(id, f);
		return id;
	};
	window.clearTimeout = (id) => window.long.delete(id) || clear(id);
	window.endTimers = () => { for (const [id, f] of [...window.long]) { window.long.delete(id); f(); } return true; };
	return true;
})()`

// TestUndo_IsReachedByKeyboard: after a change the first Tab leads to Undo, which stays while it has the focus; the
// next one leads on from where the focus was.
func TestUndo_IsReachedByKeyboard(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, config(t))
	w := watch(t, ctx, srv.URL)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL), says("#hot-table", "topic?id=42"),
		until(timers))
	set := func() {
		tabTo(t, ctx, "#hot-table [aria-label='Limit topic?id=42']")
		run(t, ctx, chromedp.KeyEvent(kb.Enter), until("document.querySelector('#dialog').open"),
			chromedp.KeyEvent(kb.Enter),
			says("#toast", "Set topic?id=42 to limit"), until("!document.querySelector('#dialog').open"))
	}
	set()
	run(t, ctx, chromedp.KeyEvent(kb.Tab), until("document.activeElement.id == 'toast-undo'"), until("endTimers()"),
		until("document.querySelector('#toast').checkVisibility()"), chromedp.KeyEvent(kb.Enter),
		says("#toast", "Undone: the override is gone"),
		until("document.activeElement.getAttribute('aria-label') == 'Limit topic?id=42'"),
		until("endTimers()"), until("document.querySelector('#toast').hidden"))
	set()
	run(t, ctx, chromedp.KeyEvent(kb.Tab), until("document.activeElement.id == 'toast-undo'"),
		chromedp.KeyEvent(kb.Tab),
		until("document.activeElement.getAttribute('aria-label') == 'Block topic?id=42'"), until("endTimers()"),
		until("document.querySelector('#toast').hidden"))
	w.check(t)
}
