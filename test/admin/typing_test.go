package admin_test

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPage_SendsNoRefusedRequest checks that the page sends no request that must be refused: a program without
// central rules is not asked for them, and numbers, addresses and keys are tried once they are whole. The browser notes
// every refusal in its console.
func TestPage_SendsNoRefusedRequest(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Central = nil
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	// tried waits until the page has tried an input: this timer ends after every timer that the page set before it.
	tried := func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		const ended = "new Promise((done) => setTimeout(() => done(true), 300))"
		_, err := chromedp.Evaluate[bool](ended, chromedp.EvalAwaitPromise)(ctx, t)
		return chromedp.Void{}, err
	}
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+"/rules"),
		says("#running tbody", "100/s, burst 200"), says("#rules-from", "From a file"),
		clickOn("#views a[href='/']"), clickOn("#hot-table tbody tr:nth-child(1) th a"),
		says("#w-result", "would have denied"))
	for _, c := range []struct{ field, text, says string }{
		{"#w-rate", "", "Write a number from"}, {"#w-rate", "0.", "Write a number from"},
		{"#w-rate", "1e", "Write a number from"}, {"#w-rate", "1e10", "Write a number from"},
		{"#w-rate", "0x10", "would have denied"}, {"#w-rate", "30.", "would have denied"},
		{"#w-burst", "1.5", "Write a whole number"}, {"#w-burst", "-", "Write a whole number"},
		{"#w-burst", "60.", "would have denied"}, {"#w-burst", "", "would have denied"},
	} {
		run(t, ctx, write(c.field, c.text), tried, says("#w-result", c.says))
	}
	run(t, ctx, clickOn("#views a[href='/overrides']"), clickOn("#add-override"),
		until("document.activeElement.id == 'f-key'"))
	for _, c := range []struct{ kind, text, says string }{
		{"client", "198.51", ""}, {"client", "198.51.100.300", ""}, {"client", "2001:db8", ""},
		{"client", "2001:DB8::7", "canonical form"}, {"client", "::ffff:198.51.100.7", "canonical form"},
		{"cidr", "198.51.100.0", ""}, {"cidr", "198.51.100.0/", ""}, {"cidr", "198.51.100.0/240", ""},
		{"cidr", "2001:db8::/65", ""}, {"cidr", "198.51.100.7/24", "canonical form"},
		{"cidr", "2001:db8::7/48", "canonical form"},
		{"key", "?id=4", ""}, {"key", "topic?id=42", "Now it would hold topic?id=42"},
		{"resource", "topic?", ""}, {"resource", "topic", "Now it would hold"}, {"class", "9", ""},
	} {
		run(t, ctx, until("(document.querySelector('#f-kind').value = '"+c.kind+"', true)"), write("#f-key", c.text),
			tried, says("#dialog-reach", c.says))
		if c.says == "" {
			run(t, ctx, until("document.querySelector('#dialog-reach').textContent == ''"))
		}
	}
	run(t, ctx, write("#f-rate", "1.5.2"), clickOn("#dialog-save"), says("#e-rate", "Write a number from"),
		write("#f-rate", ""), clickOn("#dialog-save"), says("#e-rate", "Write a number from"),
		write("#f-rate", "7"), write("#f-burst", "1.5"), clickOn("#dialog-save"),
		says("#e-burst", "Write a whole number"))
	w.check(t)
}

// write puts a text into a field as typing does.
func write(selector, text string) chromedp.Action[chromedp.Void] {
	return until("((field) => { field.value = '" + text +
		"'; field.dispatchEvent(new Event('input', {bubbles: true})); return true; })(document.querySelector('" + selector + "'))")
}
