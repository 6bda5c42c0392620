package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/test/internal/program"
)

// TestIncident_IsHandledOnPhone runs against a real program whose rule is in shadow mode: an operator finds the viral
// key, limits it with the number that the page proposes, sees that the limit holds, and takes it back, with taps and
// within a minute. Meanwhile a colleague blocks a client; that block stays.
func TestIncident_IsHandledOnPhone(t *testing.T) {
	t.Parallel()
	program.Ours(t) // building them may take longer than a browser waits
	ctx := browser(t)
	s := serveIncident(t, ", limit: {rate: 5, burst: 5, mode: shadow}")
	base := "http://" + s.admin
	w := watch(t, ctx, base)
	readers := make([]string, 40)
	for i := range readers {
		readers[i] = fmt.Sprintf("198.51.100.%d", i+1)
	}
	s.asks(t, viral, 50, readers...)
	s.asks(t, looped, 50, loop)
	run(t, ctx, phone(), chromedp.Navigate(base), says("#hot-table tbody tr", "topic?id="),
		says("#loops:not([hidden]) tbody", loop))
	o, began := operator{t, ctx, s}, time.Now()
	const row = "#hot-table tbody tr:nth-child(1)"
	run(t, ctx, tapOn("#hot-find"), until("document.activeElement.id == 'hot-find'"), chromedp.KeyEvent("%E4"),
		says(row, "topic?id=%E4%B8%AD"), says(row+" .limit", "5/s, burst 5 (shadow)"),
		tapOn(row+" [data-act=limit]"), until("document.querySelector('#dialog').open"),
		until("document.querySelector('#f-rate').value == '5'"))
	shot(t, ctx, "incident-phone-dialog")
	run(t, ctx, tapOn("#dialog-save"), says("#toast", "to limit 5/s"), says(row+" .badge", "override"),
		until(fmt.Sprintf("parseFloat(document.querySelector('%s .bad').textContent) > 0", row)))
	shot(t, ctx, "incident-phone-holds")
	putOverride(t, base, fmt.Sprintf(`{"client": %q, "action": "block", "author": "bob"}`, loop))
	run(t, ctx, tapOn("#views a[href='/overrides']"), says("#overrides tbody", "client "+loop),
		tapOn("#overrides [aria-label*='topic?id='][data-act=undo]"), says("#toast", "Undone: the override is gone"))
	shot(t, ctx, "incident-phone-undone")
	took := time.Since(began)
	if t.Logf("the operator took %v", took); took > operatorTime {
		t.Errorf("the operator took %v", took)
	}
	o.answered(viral, reader, true)
	o.answered(looped, loop, false)
	w.check(t)
}
