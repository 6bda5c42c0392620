package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/rules"
)

// withWindows has the rules of a configuration hold clients as well.
func withWindows(t *testing.T, cfg admin.Config) admin.Config {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(rulesFile+"ip: {fixed: {limit: 50, window: 1s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rules = func() *rules.Set { return set }
	return cfg
}

// phone makes the page narrow and sensitive to touch, as on a phone.
func phone() chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.EmulateViewport(390, 844),
		call(emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true}))
}

// tapOn scrolls to an element and touches it with a finger.
func tapOn(selector string) chromedp.Action[chromedp.Void] {
	see := until(fmt.Sprintf(`(() => {
		const n = document.querySelector(%q);
		if (!n?.checkVisibility() || n.disabled) return false;
		const at = () => n.getBoundingClientRect();
		if (at().top < 60 || at().bottom > innerHeight - 10) n.scrollIntoView({ block: "center" });
		const { left, top, width, height } = at();
		window.tapAt = [left + width / 2, top + height / 2];
		if (!n.contains(document.elementFromPoint(...window.tapAt))) return false;
		window.tapped = false;
		document.addEventListener("click", () => { window.tapped = true; }, { once: true, capture: true });
		return true;
	})()`, selector))
	send := func(kind input.DispatchTouchEventType, points ...*input.TouchPoint) chromedp.Action[chromedp.Void] {
		return call(input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind,
			TouchPoints: append([]*input.TouchPoint{}, points...)})
	}
	const clicked = `new Promise((done) => setTimeout(() => done(window.tapped), 300))`
	touch := func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		for range 20 { // on a busy machine a touch may become a long press, which clicks nothing
			at, err := chromedp.Evaluate[[]float64]("window.tapAt")(ctx, t)
			if err != nil {
				return chromedp.Void{}, err
			}
			if _, err := chromedp.Steps(
				send(input.DispatchTouchEventTypeTouchStart, &input.TouchPoint{X: at[0], Y: at[1]}),
				send(input.DispatchTouchEventTypeTouchEnd))(ctx, t); err != nil {
				return chromedp.Void{}, err
			}
			if done, err := chromedp.Evaluate[bool](clicked, chromedp.EvalAwaitPromise)(ctx, t); err != nil || done {
				return chromedp.Void{}, err
			}
			if _, err := see(ctx, t); err != nil {
				return chromedp.Void{}, err
			}
		}
		return chromedp.Void{}, fmt.Errorf("%s takes no tap", selector)
	}
	return chromedp.Steps(see, touch)
}

// putOverride stores an override by the API.
func putOverride(t *testing.T, base, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+"/v1/overrides?confirm=true",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatalf("%s: %s", body, answer.Status)
	}
}

// TestLimitDialog_ProposesLimitInForce checks that the dialog of a hot key begins with the limit that holds the key and
// not with the rate of its requests, and the dialog of a client in each list with the limit of clients, by keyboard and
// on a phone. The dialog warns of a limit that is above the limit in force or of the rules before it is set.
func TestLimitDialog_ProposesLimitInForce(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, withWindows(t, config(t)))
	putOverride(t, srv.URL, `{"key": "topic?id=42", "rate": 20, "burst": 25}`)
	putOverride(t, srv.URL, `{"key": "topic?id=1337", "action": "shadow"}`)
	w := watch(t, ctx, srv.URL)
	for _, look := range []string{"keyboard", "phone"} {
		use := func(selector string) { run(t, ctx, tapOn(selector)) }
		if look == "keyboard" {
			run(t, ctx, chromedp.EmulateViewport(1280, 900))
			use = func(selector string) { tabTo(t, ctx, selector); run(t, ctx, chromedp.KeyEvent(kb.Enter)) }
		} else {
			run(t, ctx, phone())
		}
		run(t, ctx, chromedp.Navigate(srv.URL), says("#hot-table tbody", "20/s, burst 25"),
			until("document.querySelector('#heaviest').checkVisibility()"))
		for _, c := range []struct{ row, name, rate, burst string }{
			{"#hot-table", "topic?id=42", "20", "25"}, {"#hot-table", "topic?id=1337", "100", "200"},
			{"#loops", "192.0.2.77", "50", ""}, {"#clients", "192.0.2.77", "50", ""},
			{"#heaviest", "192.0.2.77", "50", ""},
		} {
			use(fmt.Sprintf("%s [aria-label^='Limit '][aria-label$='%s']", c.row, c.name))
			run(t, ctx, until("document.querySelector('#dialog').open"), says("#dialog-title", c.name),
				until(fmt.Sprintf("document.querySelector('#f-rate').value == %q", c.rate)),
				until(fmt.Sprintf("document.querySelector('#f-burst').value == %q", c.burst)),
				until("!document.querySelector('#dialog-reach').textContent.includes('raises')"))
			if c.rate == "20" {
				run(t, ctx, write("#f-rate", "243"), says("#dialog-reach", "it raises the limit in force, 20/s"),
					says("#dialog-reach", "it is above the limit of the rules, 100/s"))
				shot(t, ctx, "limit-"+look)
			}
			use("#dialog-cancel")
			run(t, ctx, until("!document.querySelector('#dialog').open"))
		}
	}
	w.check(t)
}
