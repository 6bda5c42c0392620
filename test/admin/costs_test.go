package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/rules"
)

const costRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}}
  - {name: slow, match: {path: /slow}, params: [id], cost: time, hot: {rate: 500ms}, limit: {rate: 250ms, burst: 1s}}
  - {name: file, match: {path: /file}, params: [id], cost: bytes, hot: {rate: 5MB}}
  - {name: find, match: {path: /find}, params: [q], cost: response.x-cost, hot: {rate: 20}}
`

// costlyKeys are keys of each cost: one is hot and counts requests, the others count what these cost.
func costlyKeys() []hottype.HotKey {
	since := time.Now().Add(-time.Minute)
	slow, file, find := hotKey("slow?id=1", "slow", 1.5, since), hotKey("file?id=1", "file", 6.4e6, since),
		hotKey("find?q=a", "find", 30, since)
	slow.Cost, file.Cost, find.Cost = hottype.CostTime, hottype.CostBytes, "response.x-cost"
	slow.Lower, slow.Upper = 1.4, 1.9
	return []hottype.HotKey{hotKey("topic?id=1", "topic", 400, since), file, find, slow}
}

// costlyHistory has a key of requests with a great peak, and a key of time with a small one.
type costlyHistory struct{ kept }

func (*costlyHistory) Heatmap(_ context.Context, q history.HeatmapQuery) (*history.Heatmap, error) {
	cells := func(peak float64) []history.Cell {
		return []history.Cell{{State: history.Hot, Peak: peak, Allowed: history.Unknown, Denied: history.Unknown}}
	}
	return &history.Heatmap{From: q.From, To: q.To, Step: int64(q.Step / time.Second), Events: []history.Event{
		{At: q.From, Kind: "became_hot", Key: "slow?id=1", Detail: []byte(`{"cost":"time","rate":1.5,"rule":"slow"}`)}},
		Keys: []history.HeatmapKey{{Key: "topic?id=1", Cells: cells(400)},
			{Key: "slow?id=1", Cost: hottype.CostTime, Cells: cells(0.5)}}}, nil
}

func (*costlyHistory) Read(_ context.Context, q history.Query) (*history.Answer, error) {
	at := q.To.Truncate(time.Minute).Add(-time.Minute)
	return &history.Answer{Totals: []history.Total{}, Spans: []history.Span{}, Events: []history.Event{},
		Keys: []history.KeyMinute{
			{Minute: at, Key: "topic?id=1", State: history.Hot, Rate: 390, Peak: 400},
			{Minute: at, Key: "slow?id=1", Cost: hottype.CostTime, State: history.Hot, Rate: 0.04, Peak: 1.5}}}, nil
}

// TestPage_ShowsUnitsOfCosts checks that seconds, bytes and numbers are nowhere shown as if they were requests.
func TestPage_ShowsUnitsOfCosts(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	set, err := rules.Parse("rules.yaml", []byte(costRules))
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	var calm atomic.Bool
	cfg.Rules, cfg.History = func() *rules.Set { return set }, &costlyHistory{}
	cfg.Hot = func() []hottype.HotKey {
		if calm.Load() {
			return nil
		}
		return costlyKeys()
	}
	cfg.Loops = func() []hottype.HotKey {
		loop := costlyKeys()[3]
		loop.Key, loop.Rate, loop.Clients, loop.HeaviestClient = "slow?id=9", 0.06, 1, "192.0.2.77"
		return []hottype.HotKey{loop}
	}
	cfg.Heaviest = func(int) []hottype.HotKey {
		list := costlyKeys()
		for i := range list {
			list[i].Rate *= 0.1
		}
		return list
	}
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	row := func(n int, text string) chromedp.Action[chromedp.Void] {
		return says(fmt.Sprintf("#hot-table tbody tr:nth-child(%d)", n), text)
	}
	run(t, ctx, chromedp.EmulateViewport(1280, 900), scheme("light"), chromedp.Navigate(srv.URL),
		row(1, "slow?id=1"), row(1, "1.5 s/s3 × threshold1.4 s/s to 1.9 s/s"),
		row(2, "topic?id=1"), row(2, "4002 × threshold"), row(3, "find?q=a"), row(3, "30 X-Cost/s1.5 × threshold"),
		row(4, "file?id=1"), row(4, "6.4 MB/s1.3 × threshold"),
		says("#loops tbody", "60 ms/s"), says("#events", "Became hot 1.5 s/s"), says("#events", "Became hot 400/s"),
		clickOn("[data-sort=threshold]"), until("document.querySelector('[aria-sort] [aria-pressed=true]').textContent == '× threshold'"),
		row(1, "slow?id=1"))
	shot(t, ctx, "costs-now")

	run(t, ctx, clickOn("#hot-table tbody tr:nth-child(1) th a"), says("#key-name", "slow?id=1"),
		until("document.querySelector('#key-rate').textContent == '1.5 s/s' && document.querySelector('#key-rate-unit').hidden"),
		says("#key-times", "3 × threshold"), says("#key-rate-legend", "Cost, at the right"),
		until("document.querySelector('#key-chart').getAttribute('aria-label').endsWith('; the key costs 1.5 s/s')"),
		says("#key-limits", "0.25 s/s, burst 1 s, 2 in flight"), says("#w-unit", "Seconds per second"),
		until("document.querySelector('#key-chart-note').textContent == ''"), // the limit has a rate to draw
		until("document.querySelector('#w-rate').value == '0.25' && document.querySelector('#w-burst').value == '1'"),
		says("label[for=w-burst]", "Burst, seconds"),
		until("document.querySelector('#w-slider').value == '50'"), // the limit is in its middle
		until("document.querySelector('#w-slider').getAttribute('aria-valuetext') == '0.25 s/s'"))
	shot(t, ctx, "costs-key")
	limitsByCost(t, ctx)
	run(t, ctx, chromedp.Navigate(srv.URL+"/key?key=topic%3Fid%3D1"), says("#key-name", "topic?id=1"),
		until("document.querySelector('#key-rate').textContent == '400' && !document.querySelector('#key-rate-unit').hidden"),
		until("!document.querySelector('#key-chart').getAttribute('aria-label').includes('costs')"))

	run(t, ctx, chromedp.Navigate(srv.URL+"/history?last=hour"), says("#history-events", "Became hot 1.5 s/s"),
		until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"),
		chromedp.KeyEvent(kb.Home), says("#heatmap-told", "at most 400/s"), chromedp.KeyEvent(kb.ArrowDown),
		says("#heatmap-told", "at most 0.5 s/s"),
		says("#minute-table tbody tr:nth-child(1)", "390400"),
		says("#minute-table tbody tr:nth-child(2)", "40 ms/s1.5 s/s"))
	// The heaviest cell of each cost is as dark as a cell can be, whatever its number.
	alphas, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](`(() => {
		const canvas = document.querySelector("#heatmap");
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
		copy.drawImage(canvas, 0, 0);
		const at = (row) => copy.getImageData(4, (26 + 24 * row + 12) * devicePixelRatio, 1, 1).data.join();
		return [0, 1].map((row) => Number(at(row) === at(0)));
	})()`))
	if err != nil || len(alphas) != 2 || alphas[1] != 1 {
		t.Errorf("the peaks of two costs are shaded by one scale: %v, %v", alphas, err)
	}
	shot(t, ctx, "costs-history")

	run(t, ctx, chromedp.Navigate(srv.URL+"/rules"), says("#running tbody", "0.5 s/s over 5s"))
	calm.Store(true)
	run(t, ctx, chromedp.Navigate(srv.URL), says("#closest li:nth-child(1)", "0.15 s/s of 0.5 s/s · rule slow"),
		says("#closest li:nth-child(2)", "40 of 200/s"), says("#closest li:nth-child(3)", "3 X-Cost/s of 20 X-Cost/s"),
		says("#closest li:nth-child(4)", "640 kB/s of 5 MB/s"))
	formatsAsServerDoes(t, ctx)
	w.check(t)
}

// limitsByCost sets a limit in the units of a rule, and finds them wherever the page names the override.
func limitsByCost(t *testing.T, ctx context.Context) {
	t.Helper()
	run(t, ctx, clickOn("#key-acts [data-act=limit]"), until("document.querySelector('#dialog').open"),
		says("#l-rate", "Seconds per second"), says("label[for=f-burst]", "Burst, seconds"),
		until("document.querySelector('#f-rate').value == '0.25' && document.querySelector('#f-burst').value == '1'"))
	shot(t, ctx, "costs-dialog")
	run(t, ctx, fill("#f-rate", "0.2"), fill("#f-burst", "1.5"), clickOn("#dialog-save"),
		says("#toast", "Set slow?id=1 to limit 0.2 s/s, burst 1.5 s"),
		says("#key-limits", "limit 0.2 s/s, burst 1.5 s"),
		says("#key-limits .applies", "0.2 s/s, burst 1.5 s"), clickOn("#views a[href='/overrides']"),
		says("#overrides tbody", "limit 0.2 s/s, burst 1.5 s"), clickOn("#overrides [data-act=edit]"),
		until("document.querySelector('#dialog').open && document.querySelector('#f-burst').value == '1.5'"),
		clickOn("#dialog-cancel"), clickOn("#add-override"), until("document.activeElement.id == 'f-key'"),
		says("#l-rate", "Requests per second"), fill("#f-key", "file?id=1"), says("#l-rate", "Bytes per second"),
		says("label[for=f-burst]", "Burst, bytes"), fill("#f-key", "topic?id=1"),
		says("#l-rate", "Requests per second"), fill("#f-rate", "5"), fill("#f-burst", "1.5"), clickOn("#dialog-save"),
		says("#e-burst", "Write a whole number"), clickOn("#dialog-cancel"), clickOn("#views a[href='/audit']"),
		says("#audit tbody", "set: limit 0.2 s/s, burst 1.5 s"))
}

// formatsAsServerDoes checks that page and programs write the same text for a cost.
func formatsAsServerDoes(t *testing.T, ctx context.Context) {
	t.Helper()
	type rate struct {
		N    float64
		Cost hottype.Cost
	}
	var rates []rate
	var want []string
	for _, cost := range []hottype.Cost{hottype.CostTime, hottype.CostBytes, "response.x-cost", "response.X-Cost"} {
		for _, n := range []float64{0, 0.0004, 0.04, 0.25, 0.6, 1, 1.26, 9.94, 10, 312, 999, 1000, 5e6, 7.75e9, 2e12} {
			if cost != hottype.CostBytes && n >= 1000 || math.Signbit(n) {
				continue // a person reads separators in whole numbers
			}
			rates, want = append(rates, rate{n, cost}), append(want, cost.FormatRate(n))
		}
	}
	list, err := json.Marshal(rates)
	if err != nil {
		t.Fatal(err)
	}
	got, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](fmt.Sprintf(
		`import("/assets/text.js").then(({ costRate }) => %s.map(({ N, Cost }) => costRate(N, Cost)))`, list),
		chromedp.EvalAwaitPromise))
	if err != nil || len(got) != len(want) {
		t.Fatalf("%q, %v", got, err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v: the page writes %q, programs %q", rates[i], got[i], want[i])
		}
	}
}
