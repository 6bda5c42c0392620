package admin_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/report"
)

// night is a site to which one thing after the other happens.
type night struct{ hour atomic.Int64 }

const (
	calmHour = iota
	hotHour
	severalHour
	loopHour
	floodHour
	upstreamHour
	troubleHour
)

func (n *night) hot() []hottype.HotKey {
	since := time.Now().Add(-time.Minute)
	one := hotKey("topic?id=4245", "topic", 640, since)
	one.Clients = 231
	switch n.hour.Load() {
	case hotHour:
		return []hottype.HotKey{one}
	case severalHour, upstreamHour, troubleHour:
		return []hottype.HotKey{one, hotKey("topic?id=1", "topic", 300, since),
			hotKey("topic?id=2", "topic", 299, since)}
	}
	return nil
}

func (n *night) loops() []hottype.HotKey {
	if n.hour.Load() == loopHour {
		return liveLoops(time.Now())[:1]
	}
	return nil
}

func (n *night) reports(context.Context) ([]report.Limiter, error) {
	now := time.Now()
	s := now.Sub(now.Truncate(24 * time.Hour)).Seconds()
	r := report.Limiter{Instance: "a", At: now, Allowed: uint64(500 * s)}
	switch n.hour.Load() {
	case troubleHour:
		return nil, errors.New("redis: connection refused")
	case floodHour:
		r.Denied[hottype.ReasonIPFixed] = uint64(320 * s)
	case hotHour, severalHour:
		r.Denied[hottype.ReasonHot] = uint64(32 * s)
		r.Keys = []report.KeyDecisions{{Key: "topic?id=4245", Allowed: uint64(10 * s), Denied: uint64(32 * s)}}
	}
	return []report.Limiter{r}, nil
}

func (n *night) status() []admin.Status {
	if n.hour.Load() == upstreamHour {
		return []admin.Status{{Name: "upstream checkout", Value: "483 ms of 250 ms"}}
	}
	return []admin.Status{{Name: "redis", Value: "breaker closed", OK: true}}
}

// TestVerdict_NamesWorstFirst plays a night, and reads the line above the views, the title and the icon of the tab.
func TestVerdict_NamesWorstFirst(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	n, cfg := &night{}, config(t)
	cfg.Hot, cfg.Loops, cfg.Reports, cfg.Status = n.hot, n.loops, n.reports, n.status
	srv := serve(t, cfg)
	run(t, ctx, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(srv.URL))
	for _, c := range []struct {
		hour              int64
		says, title, icon string
	}{
		{calmHour, "Nothing is hot · 500 requests/s", "calm", "icon"},
		{hotHour, "topic?id=4245 · 3.2 × its threshold · held to 100/s, burst 200 · 32/s denied · 231 clients · since ",
			"1 hot", "icon-hot"},
		{severalHour, "3 keys are hot · first topic?id=4245 · 3.2 × its threshold", "3 hot", "icon-hot"},
		{loopHour, "topic?id=99 is a loop · 14 clients, 95.1 % by 192.0.2.77 · not limited", "1 loop", "icon-hot"},
		{floodHour, "No key is hot, and 320/s are denied, per address", "flood", "icon-hot"},
		{upstreamHour, "upstream checkout: 483 ms of 250 ms", "slow upstream", "icon-bad"},
		{troubleHour, "3 keys are hot · first topic?id=4245", "trouble", "icon-bad"},
	} {
		n.hour.Store(c.hour)
		run(t, ctx, says("#verdict .sentence", c.says),
			until(fmt.Sprintf("document.title == '%s · hotparam · news'", c.title)),
			until(fmt.Sprintf("new URL(document.querySelector('link[rel=icon]').href).pathname == '/assets/%s.svg'", c.icon)))
		for _, look := range []string{"light", "dark"} {
			run(t, ctx, scheme(look))
			shotOf(t, ctx, fmt.Sprintf("verdict-%d-%s", c.hour, look), chromedp.CaptureScreenshot())
		}
	}
	run(t, ctx, says("#trouble", "connection refused"))
	n.hour.Store(upstreamHour)
	run(t, ctx, says("#verdict .others", "3 keys are hot"), clickOn("#verdict .open"), says("#ready", "ready"))
	n.hour.Store(hotHour)
	run(t, ctx, says("#verdict .sentence", "topic?id=4245"), clickOn("#verdict .open"),
		says("#key-name", "topic?id=4245"), until("document.title == '1 hot · topic?id=4245 · hotparam · news'"))
	srv.CloseClientConnections()
	srv.Listener.Close()
	run(t, ctx, says("#banner:not([hidden])", "trying again"), until("document.querySelector('#verdict').hidden"),
		until("document.title == 'connection lost · topic?id=4245 · hotparam · news'"))
}

// aboveFold returns the number of hot keys whose rows are whole in the window.
const aboveFold = `[...document.querySelectorAll("#hot-table tbody tr")]
	.filter((r) => r.getBoundingClientRect().bottom <= innerHeight).length`

// TestHotKeys_AreAboveTheFold checks that a person sees hot keys without scrolling: eight on a laptop, two with the
// page at twice its size, and one on a phone.
func TestHotKeys_AreAboveTheFold(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Hot = busy(50)
	srv := serve(t, cfg)
	for _, c := range []struct {
		width, height int64
		least         int
	}{{1440, 900, 8}, {720, 450, 2}, {820, 1180, 8}, {390, 844, 1}} {
		run(t, ctx, chromedp.EmulateViewport(c.width, c.height), chromedp.Navigate(srv.URL),
			until("document.querySelectorAll('#hot-table tbody tr').length >= 10"),
			says("#verdict .sentence", "50 keys are hot"), until(fmt.Sprintf("innerWidth == %d", c.width)),
			until("!document.querySelector('#loops').hidden"))
		for _, look := range []string{"light", "dark"} {
			run(t, ctx, scheme(look))
			shotOf(t, ctx, fmt.Sprintf("fold-%d-%s", c.width, look), chromedp.CaptureScreenshot())
		}
		rows, err := chromedp.Run(ctx, chromedp.Evaluate[int](aboveFold))
		if err != nil || rows < c.least {
			t.Errorf("%d x %d: %d rows are above the fold, want %d: %v", c.width, c.height, rows, c.least, err)
		}
		wide, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](tooWide))
		if err != nil || len(wide) > 0 {
			t.Errorf("%d pixels: %q are too wide, %v", c.width, wide, err)
		}
	}
}
