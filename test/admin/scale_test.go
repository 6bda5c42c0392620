package admin_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/storage/historystore"
	"github.com/hotparam/pipeline/test/internal/program"
)

// busy is a site of n hot keys, heaviest first, whose rates move all the time.
func busy(n int) func() []hottype.HotKey {
	since := time.Now()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("topic?id=%05d", i)
	}
	return func() []hottype.HotKey {
		keys, moved := make([]hottype.HotKey, n), wave(time.Now(), 0, 50, 7)
		for i, name := range names {
			keys[i] = hotKey(name, "topic", float64(100*(n-i))+moved, since)
			keys[i].Clients, keys[i].HeaviestClient, keys[i].ClientShare = int64(30+i), "198.51.100.7", 0.1
		}
		return keys
	}
}

// frames holds the times of the frames of a page while its list was scrolled, in milliseconds, the number of frames and
// of long tasks, and the maximum number of rows.
type frames struct {
	Median, P99, Worst float64
	N, Long, Rows      int
}

// scroll goes through the list %d times by a page of it, down and up the screen on each, and measures every frame.
const scroll = `(async () => {
	const gaps = [], next = () => new Promise(requestAnimationFrame);
	const seen = new PerformanceObserver((list) => { long += list.getEntries().length; });
	let long = 0, rows = 0, running = true, turns = 0;
	seen.observe({ type: "longtask" });
	const measured = (async () => {
		for (let last = await next(); running;) {
			const now = await next();
			gaps.push(now - last);
			last = now;
		}
	})();
	const told = document.querySelector("#hot-more"), body = document.querySelector("#hot-table tbody");
	let button = document.querySelector("#hot-after");
	for (; turns < %d; turns++) {
		if (button.disabled) button = document.querySelector(button.id === "hot-after" ? "#hot-before" : "#hot-after");
		const before = told.textContent;
		button.click();
		while (told.textContent === before) await next();
		for (const y of [1, 0]) {
			scrollTo(0, y * document.documentElement.scrollHeight);
			await next();
		}
		rows = Math.max(rows, body.rows.length);
	}
	running = false;
	await measured;
	seen.disconnect();
	gaps.sort((a, b) => a - b);
	const at = (part) => gaps[Math.min(gaps.length - 1, Math.floor(part * gaps.length))];
	return { Median: at(0.5), P99: at(0.99), Worst: at(1), N: gaps.length, Long: long, Rows: rows };
})()`

// TestScrolling_CostsSameForTenThousandKeys goes through forty pages of the list and on each page down and up, while
// rates change every second. The page has few rows however many keys are hot, so its frames take as long with ten
// thousand as with a hundred. The frames are printed and not judged, because other tests delay them.
func TestScrolling_CostsSameForTenThousandKeys(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	open := func(keys int, more string) {
		t.Helper()
		cfg := config(t)
		cfg.Hot, cfg.Loops = busy(keys), nil
		run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(serve(t, cfg).URL), says("#hot-more", more))
	}
	measure := func(turns int) (f frames) {
		t.Helper()
		f, err := chromedp.Run(ctx, chromedp.Evaluate[frames](fmt.Sprintf(scroll, turns), chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	open(100, "1 to 50 of 100")
	few := measure(40)
	open(10_000, "1 to 50 of 10,000")
	many := measure(40)
	run(t, ctx, says("#hot-more", "2,001 to 2,050 of 10,000"))
	t.Logf("100 keys: %+v; 10,000 keys: %+v", few, many)
	if many.Rows > 60 {
		t.Errorf("%d rows are in the document", many.Rows)
	}
	findAmongMany(t, ctx)
}

// findAmongMany sorts and searches ten thousand keys, and reaches the last one by keyboard.
func findAmongMany(t *testing.T, ctx context.Context) {
	t.Helper()
	press := func(keys string) { run(t, ctx, chromedp.KeyEvent(keys)) }
	first := "#hot-table tbody tr:nth-child(1) th"
	run(t, ctx, clickOn("[data-sort=clients]"), says(first, "topic?id=09999"), says("#hot-more", "1 to 50 of 10,000"),
		clickOn("[data-sort=key]"), says(first, "topic?id=00000"))
	run(t, ctx, until("(document.activeElement.blur(), true)"))
	tabTo(t, ctx, "#hot-find")
	press("id=0012")
	run(t, ctx, until("document.querySelectorAll('#hot-table tbody tr').length == 10"), says(first, "topic?id=00120"))
	for range "id=0012" {
		press(kb.Backspace)
	}
	run(t, ctx, says("#hot-more", "1 to 50 of 10,000"))
	tabTo(t, ctx, "#hot-last")
	press(kb.Enter)
	run(t, ctx, says("#hot-more", "9,951 to 10,000 of 10,000"), says(first, "topic?id=09950"))
	tabTo(t, ctx, `#hot-table a[href$="id%3D09999"]`)
	press(kb.Enter)
	run(t, ctx, says("#key-name", "topic?id=09999"))
}

// keep runs a history in a directory until stop is called.
func keep(t *testing.T, dir string) (past *historystore.Store, stop func()) {
	t.Helper()
	past = historystore.New(historystore.Config{Dir: dir})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- past.Run(ctx) }()
	return past, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// millionRows fills a history with a week in which each minute has a hundred keys, and ends with this hour.
func millionRows(t *testing.T, dir string) {
	t.Helper()
	past, stop := keep(t, dir)
	from := time.Now().Truncate(time.Hour).Add(-7 * 24 * time.Hour)
	for minute := range uint64(7 * 24 * 60) {
		second := history.Second{At: from.Add(time.Duration(minute) * time.Minute)}
		for i := range 100 {
			second.Keys = append(second.Keys, history.KeySecond{
				Key: hottype.Key(fmt.Sprintf("topic?id=%d", i+int(minute)/60%200)), Rule: "topic", State: history.Cold,
				Rate: float64(i + int(minute)%7), Allowed: 60, Clients: 5})
		}
		past.Second(&second)
		if minute%500 == 499 { // fewer than may wait for the disk
			program.Await(t, time.Minute, "the disk", func() bool { return past.Stats().Written >= minute })
		}
	}
	stop()
	if st := past.Stats(); st.Dropped > 0 {
		t.Fatalf("%+v", st)
	}
}

// TestPage_DrawsWeekOfMillionRows checks that the page draws a week of a million rows.
func TestPage_DrawsWeekOfMillionRows(t *testing.T) {
	t.Parallel()
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "1" {
		t.Skip("writes a million rows; runs with HOTPARAM_REQUIRE_SERVERS=1")
	}
	dir := t.TempDir()
	millionRows(t, dir)
	past, stop := keep(t, dir)
	t.Cleanup(stop)
	if _, err := past.Read(t.Context(), history.Query{Limit: 1}); err != nil { // the file is open
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.History = past
	srv := serve(t, cfg)
	const drawn = `document.querySelectorAll("#history-keys li").length === 40 &&
		!document.querySelector("#heatmap").hidden && ((canvas) => canvas.getContext("2d")
			.getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v > 0))(document.querySelector("#heatmap"))`
	chrome := browser(t)
	run(t, chrome, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+"/history?last=week"),
		until(drawn), says("#heatmap-told", "A cell is 1h"))
	took, err := chromedp.Run(chrome, chromedp.Evaluate[float64]("performance.now()"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a week of 1,008,000 rows is drawn %.0f ms after navigation", took)
}
