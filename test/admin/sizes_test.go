package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// TestLists_ArePagedAndTellTheirBounds has 340 loops, of which the stream has the first hundred, and an adaptive limit
// with a long text.
func TestLists_ArePagedAndTellTheirBounds(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	set, err := rules.Parse("rules.yaml", []byte(`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {adaptive: true, min: 20, max: 2000}}
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.Rules, cfg.Hot = func() *rules.Set { return set }, busy(2)
	cfg.Upstreams = func() []hottype.UpstreamLimit {
		return []hottype.UpstreamLimit{{Name: "default", Rate: 200, InFlightCap: 13.2, MinSum: 20, MaxSum: 2000,
			Saturated: true, Why: "at the limit", LatencySeconds: 0.2, TargetSeconds: 0.25, At: time.Now()}}
	}
	cfg.Loops = func() (loops []hottype.HotKey) {
		for i := range 340 {
			h := hotKey(fmt.Sprintf("topic?id=loop%03d", i), "topic", float64(900-i), time.Now().Add(-time.Minute))
			h.Clients, h.HeaviestClient, h.ClientShare = 3, fmt.Sprintf("192.0.2.%d", i%250), 0.9
			loops = append(loops, h)
		}
		return loops
	}
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	rows := func(n int) chromedp.Action[chromedp.Void] {
		return until(fmt.Sprintf("document.querySelectorAll('#loops tbody tr').length == %d", n))
	}
	run(t, ctx, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(srv.URL), rows(10),
		says("#loops .rest", "10 of 340, of which the first 100 are listed"),
		until("document.documentElement.scrollHeight < 2200"),
		clickOn("#loops .rest button"), rows(20), says("#loops .rest", "20 of 340"),
		until("!document.querySelector('#clients .rest').checkVisibility()"),
		until("document.querySelector('#hot-table .limit span').textContent == '200/s adaptive'"),
		says("#verdict .sentence", "held to 200/s adaptive"),
		until("document.querySelector('#hot-table .limit details p').textContent.includes('20 to 2000/s')"),
		until("!document.querySelector('#hot-table .limit details p').checkVisibility()"),
		clickOn("#hot-table .limit summary"),
		until("document.querySelector('#hot-table .limit details p').checkVisibility()"))
	run(t, ctx, chromedp.EmulateViewport(820, 900), chromedp.Navigate(srv.URL), rows(10),
		until("['#hot-table', '#loops', '#clients', '#heaviest'].every((list) => "+
			"getComputedStyle(document.querySelector(list + ' tbody tr')).display == 'table-row')"),
		until("document.querySelector('#hot-table .bad').checkVisibility()"),
		until("document.documentElement.scrollHeight < 2400"))
	for _, width := range []int64{1440, 820, 390} {
		for _, look := range []string{"light", "dark"} {
			run(t, ctx, chromedp.EmulateViewport(width, 900), scheme(look),
				until(fmt.Sprintf("innerWidth == %d && document.documentElement.scrollWidth <= %d", width, width)))
			shot(t, ctx, fmt.Sprintf("sizes-%d-%s", width, look))
		}
	}
	w.check(t)
}

// TestTables_FitEachWidth checks that the lists of the other views are tables with fewer columns on a tablet, and cards
// on a phone alone, in each look.
func TestTables_FitEachWidth(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	srv := serve(t, cooling(config(t)))
	w := watch(t, ctx, srv.URL)
	putOverride(t, srv.URL, `{"key": "topic?id=42", "rate": 100, "mode": "shadow", "for": "1h", "author": "ann",
		"reason": "would 100/s be enough for a whole evening?"}`)
	for address, lists := range map[string][]string{
		"/overrides": {"#overrides table"}, "/rules": {"#running", "#versions"}, "/audit": {"#audit"},
		"/history?last=hour": {"#minute-table"}, "/client?client=192.0.2.77": {"#trace"},
	} {
		run(t, ctx, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(srv.URL+address))
		for _, list := range lists {
			run(t, ctx, until(fmt.Sprintf("document.querySelector('%s tbody tr')?.checkVisibility()", list)))
		}
		for _, m := range modes {
			run(t, ctx, m.set())
			for _, list := range lists {
				want := "table-row"
				if m.width == 390 {
					want = "grid"
				}
				run(t, ctx, until(fmt.Sprintf(`((row) => getComputedStyle(row).display == "%s" &&
					row.scrollWidth <= row.closest(".card").clientWidth)(document.querySelector("%s tbody tr"))`, want, list)))
			}
			shot(t, ctx, fmt.Sprintf("tables%.4s-%v", strings.ReplaceAll(address, "/", "-"), m))
		}
	}
	columns := "[...document.querySelectorAll('#minute-table thead th')].filter((h) => h.checkVisibility()).length == "
	run(t, ctx, chromedp.Navigate(srv.URL+"/history?last=hour"),
		until("document.querySelector('#minute-table tbody tr')?.checkVisibility()"),
		mode{820, "light"}.set(), until(columns+"6"), mode{1440, "light"}.set(), until(columns+"9"))
	w.check(t)
}

// TestFeed_SaysWhereItWasCut has more events than the feed keeps.
func TestFeed_SaysWhereItWasCut(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	cfg.Hot = busy(70)
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL),
		until("document.querySelectorAll('#events li').length == 60"),
		until(`/^The newest 60 events, back to \d\d:\d\d:\d\d; History has older ones\.$/
			.test(document.querySelector("#events-cut:not([hidden])")?.textContent)`))
	w.check(t)
}
