package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/internal/operator/admin"
)

// manyHooks are forty webhooks with long errors, of which the first has only lost events.
type manyHooks struct{ hooks }

func (manyHooks) Webhooks() (list []admin.Webhook) {
	for i := range 40 {
		w := admin.Webhook{Name: fmt.Sprintf("hook-%02d", i), Format: "json", Failed: 2, LostAt: time.Now(), Losing: true}
		if i > 0 {
			w.Error, w.At = strings.Repeat("the receiver does not answer ", 20), time.Now()
		}
		list = append(list, w)
	}
	return list
}

// TestPhone_ShowsHotKeyAboveTheFold checks that who opens the page on a phone sees the hottest key with its rate, its
// limit and its denials without scrolling, in each look.
func TestPhone_ShowsHotKeyAboveTheFold(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, config(t))
	w := watch(t, ctx, srv.URL)
	run(t, ctx, chromedp.EmulateViewport(390, 844), chromedp.Navigate(srv.URL),
		says("#hot-table tbody tr", "topic?id=42"))
	for _, m := range modes {
		if m.width != 390 {
			continue
		}
		run(t, ctx, m.set(), chromedp.EmulateViewport(390, 844), until("innerHeight == 844"),
			until(`["th", ".rate", ".limit", ".bad"].every((part) => document.querySelector("#hot-table tbody tr " + part)
				.getBoundingClientRect().bottom <= innerHeight)`))
		shotOf(t, ctx, "fold-"+m.String(), chromedp.CaptureScreenshot())
	}
	w.check(t)
}

// TestPhone_ShowsFiftyHotKeys checks that the events are one tap away, and not below all keys; lost events are not
// green, and errors do not fill the screen.
func TestPhone_ShowsFiftyHotKeys(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Hot, cfg.Notify = busy(50), manyHooks{}
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	run(t, ctx, chromedp.EmulateViewport(380, 800), chromedp.Navigate(srv.URL), says("#hot-more", "1 to 10 of 50"),
		until("document.querySelectorAll('#hot-table tbody tr').length == 10"),
		until("document.querySelector(\".jumps [href='#loops']\").checkVisibility()"),
		until("document.documentElement.scrollWidth <= 380"),
		clickOn(".jumps [href='#happened']"),
		until("(() => { const y = document.querySelector('#happened').getBoundingClientRect().top; return y >= 0 && y < 800; })()"),
		// The links stay in reach, and the view is the same.
		until("document.querySelector('.jumps').getBoundingClientRect().bottom < 120"),
		until("location.pathname == '/' && document.querySelector('#view-now').checkVisibility()"),
		clickOn(".jumps [href='#hot']"), clickOn("#hot-after"), says("#hot-more", "11 to 20 of 50"))
	shot(t, ctx, "fifty-phone")
	run(t, ctx, clickOn("#views a[href='/audit']"), says("#webhooks", "hook-39"),
		until("document.querySelectorAll('#webhooks li.poor').length == 40"),
		says("#webhooks li:first-child.poor", "2 lost, last "),
		until("document.querySelectorAll('#webhooks li')[1].getBoundingClientRect().height < 160"))
	heights, err := chromedp.Run(ctx, chromedp.Evaluate[float64]("document.querySelector('#webhooks').offsetHeight"))
	if err != nil || heights > 40*160 {
		t.Errorf("the webhooks take %.0f pixels: %v", heights, err)
	}
	w.check(t)
}
