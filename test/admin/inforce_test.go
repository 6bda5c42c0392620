package admin_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// TestPage_ShowsLimitInForce checks that the page shows an adaptive limit with its current number, in the table, at
// the key and in what-if, and that an upstream that misses its target is not green.
func TestPage_ShowsLimitInForce(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	set, err := rules.Parse("rules.yaml", []byte(`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {adaptive: true, min: 20, max: 2000}}
  - {name: "*", params: ["*"], hot: {rate: 500}, limit: {algorithm: in_flight, limit: 20}}
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.Rules = func() *rules.Set { return set }
	cfg.Upstreams = func() []hottype.UpstreamLimit {
		return []hottype.UpstreamLimit{{Name: "default", Rate: 140, InFlightCap: 13.2, MinSum: 20, MaxSum: 2000, Saturated: true,
			Why: "at the limit", LatencySeconds: 0.705, TargetSeconds: 0.25, At: time.Now()}}
	}
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL),
		says("#hot-table tbody tr:nth-child(1) .limit", "140/s, burst 14 now"),
		says("#hot-table tbody tr:nth-child(4) .limit", "20 in flight"),
		says("#status .poor", "upstream default 705 ms of 250 ms"),
		clickOn("#hot-table tbody tr:nth-child(1) th a"), says("#key-limits .applies", "140/s, burst 14 now"),
		says("#key-chart-note", "the limit in force"), until("document.querySelector('#w-rate').value == '140'"),
		says("#w-result", "In force now: 140/s"), says("#w-result", "an override would replace it"),
		clickOn("#views a[href='/rules']"), says("#running tbody", "adapts to the capacity of default, 20 to 2000/s"),
		clickOn("#views a[href='/audit']"), says("#upstreams li.poor", "705 ms of 250 ms · misses its target"))
	w.check(t)
}
