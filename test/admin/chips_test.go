package admin_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/internal/operator/admin"
)

// inTrouble are the chips of a program in which much is wrong at once.
func inTrouble() []admin.Status {
	return []admin.Status{
		{Name: "redis", Value: "breaker open"}, {Name: "history", Value: "not written: no space left on device"},
		{Name: "kafka", Value: "3 of 12 partitions without a leader, counts are retransmitted"},
		{Name: "upstream checkout", Value: "483 ms of 250 ms"}, {Name: "upstream", Value: "unreachable"},
		{Name: "statsd.collector.internal:8125", Value: "refuses connections"}, {Name: "reports", Value: "unavailable"},
		{Name: "rules", Value: "different"}, {Name: "clock", Value: "2m 13s ahead"},
	}
}

// brokenWords are the words of chips, badges, buttons and notes that stand on more than one line although a line of
// the page has room for them.
const brokenWords = `[...document.querySelectorAll(".status li, .badge, .trouble li, .parts li, .note, button, .button")]
	.filter((n) => n.checkVisibility() && !n.querySelector(".key")).flatMap((n) => {
		const found = [], range = document.createRange();
		const texts = document.createTreeWalker(n, NodeFilter.SHOW_TEXT);
		while (texts.nextNode()) {
			for (const { 0: word, index } of texts.currentNode.data.matchAll(/\S+/g)) {
				if (word.length > 16) continue; // an address may break
				range.setStart(texts.currentNode, index);
				range.setEnd(texts.currentNode, index + word.length);
				if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) found.push(word);
			}
		}
		return found;
	})`

// tooWide are the elements that stand out of the window, or nothing if the page is not wider than that.
const tooWide = `document.documentElement.scrollWidth <= innerWidth ? []
	: [...document.querySelectorAll("main *, .top *")]
	.filter((n) => n.checkVisibility() && n.getBoundingClientRect().right > innerWidth + 1)
	.map((n) => n.outerHTML.slice(0, 80))`

// TestChips_KeepWordsWhole: on the narrowest phones no chip, badge, button or note breaks inside a word, and the page
// is not wider than the window.
func TestChips_KeepWordsWhole(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Status = inTrouble
	srv := serve(t, cooling(cfg))
	putOverride(t, srv.URL, `{"key": "topic?id=42", "rate": 1200000, "burst": 2400000, "mode": "shadow", "for": "1h",
		"author": "administrator", "reason": "redistribution of international announcements"}`)
	for view, ready := range everyView {
		run(t, ctx, chromedp.EmulateViewport(390, 844), chromedp.Navigate(srv.URL+view),
			says("#status", "2m 13s ahead"), until(fmt.Sprintf("document.querySelector(%q)", ready)))
		for i, width := range []int64{360, 390} {
			run(t, ctx, scheme([]string{"light", "dark"}[i]), chromedp.EmulateViewport(width, 844),
				until(fmt.Sprintf("innerWidth == %d", width)))
			shot(t, ctx, fmt.Sprintf("chips%d-%d", len(view), width))
			for what, script := range map[string]string{"break": brokenWords, "are too wide": tooWide} {
				found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](script))
				if err != nil || len(found) > 0 {
					t.Errorf("%s, %d pixels wide: %q %s, %v", view, width, found, what, err)
				}
			}
		}
	}
}
