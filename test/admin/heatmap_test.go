package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/rules"
)

// longKey is an Arabic search in its canonical form, which is longer than its column.
const longKey = "/search?lang=ar&q=%D8%A7%D9%84%D8%A7%D9%86%D8%AA%D8%AE%D8%A7%D8%A8%D8%A7%D8%AA%20" +
	"results%20of%20the%20day%20before"

// evening is a history that begins some minutes before the test: one key is hot and held by an override, one loops, and
// others are not hot. Each further answer has one more key.
type evening struct {
	kept
	began  time.Time
	events []history.Event
	asked  atomic.Int64
	first  atomic.Bool // another key is the heaviest
}

func newEvening(minutes int) *evening {
	n := &evening{began: time.Now().Add(-time.Duration(minutes) * time.Minute).Truncate(time.Minute)}
	n.answer = history.Answer{Totals: []history.Total{}, Spans: []history.Span{}, Events: []history.Event{},
		Keys: []history.KeyMinute{{Minute: n.began, Key: "topic?id=42", Rule: "topic", State: history.Hot, Rate: 300,
			Peak: 400, Allowed: 6000, Denied: 3000}}}
	o := rules.Override{ID: "o1", Key: "topic?id=42", Action: rules.ActionLimit, Rate: 60, Author: "ann"}
	n.add(5*time.Minute, "became_hot", map[string]any{"key": o.Key, "rate": 300, "rule": "topic"})
	n.add(6*time.Minute, "override_put", map[string]any{"key": o.Key, "author": "ann", "override": o})
	n.add(12*time.Minute, "override_deleted", map[string]any{"key": o.Key, "author": "ann", "override": o})
	o.ID, o.Key, o.Mode, o.Author = "o2", "topic?id=7*", hottype.ModeShadow, "bob"
	n.add(9*time.Minute, "override_put", map[string]any{"key": o.Key, "author": "bob", "override": o})
	return n
}

func (n *evening) add(after time.Duration, kind string, detail map[string]any) {
	text, err := json.Marshal(detail)
	if err != nil {
		panic(err) // the test's own values
	}
	n.events = append(n.events, history.Event{At: n.began.Add(after), Kind: kind, Key: fmt.Sprint(detail["key"]),
		Detail: text})
}

func (n *evening) Heatmap(_ context.Context, q history.HeatmapQuery) (*history.Heatmap, error) {
	m := &history.Heatmap{From: q.From, To: q.To, Step: int64(q.Step / time.Second), Events: []history.Event{}}
	for _, e := range n.events {
		if !e.At.Before(q.From) && e.At.Before(q.To) {
			m.Events = append(m.Events, e)
		}
	}
	if more := len(m.Events) - 1000; more > 0 {
		m.Events, m.Truncated = m.Events[more:], true
	}
	list := []string{"topic?id=42", "topic?id=9", "topic?id=77", longKey}
	for i := range n.asked.Add(1) {
		list = append(list, fmt.Sprintf("new?id=%d", i))
	}
	if n.first.Load() {
		list = append([]string{"first?id=1"}, list...)
	}
	for row, name := range list {
		k := history.HeatmapKey{Key: hottype.Key(name), Rule: "topic", Cells: []history.Cell{}}
		for at := range int64(q.To.Sub(q.From)/q.Step) + 1 {
			t := q.From.Add(time.Duration(at) * q.Step)
			if t.Before(n.began.Truncate(q.Step)) || !t.Before(q.To) {
				continue
			}
			c := history.Cell{At: at, State: history.Cold, Peak: 400 / math.Pow(float64(row+1), 2), Allowed: 600}
			if minute := t.Sub(n.began) / time.Minute; row == 0 && minute >= 5 && minute < 15 {
				c.State, c.Denied = history.Hot, 300
			} else if row == 1 && minute >= 8 && minute < 16 {
				c.State, c.Peak = history.Loop, 300
			}
			k.Cells = append(k.Cells, c)
		}
		if len(k.Cells) > 0 {
			m.Keys = append(m.Keys, k)
		}
	}
	return m, nil
}

// modes are the widths and looks in which views are seen: a desk, a tablet and a phone, in light and dark colours and
// in colours that the system forces.
var modes = func() (list []mode) {
	for _, width := range []int64{1440, 820, 390} {
		for _, look := range []string{"light", "dark", "forced"} {
			list = append(list, mode{width, look})
		}
	}
	return list
}()

type mode struct {
	width int64
	look  string
}

// drawn waits until the page has drawn itself in the size and the colours that it was just given.
func drawn(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	_, err := chromedp.Evaluate[bool](`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
		done(true);
	})))`, chromedp.EvalAwaitPromise)(ctx, t)
	return chromedp.Void{}, err
}

func (m mode) String() string { return fmt.Sprintf("%d-%s", m.width, m.look) }

func (m mode) set() chromedp.Action[chromedp.Void] {
	look := scheme(m.look)
	if m.look == "forced" {
		look = forced("dark")
	}
	return chromedp.Steps(chromedp.EmulateViewport(m.width, 900), look,
		until(fmt.Sprintf("innerWidth == %d && document.documentElement.scrollWidth <= %d", m.width, m.width)), drawn)
}

// span is the address of the first twenty minutes of a evening, whose cells are then at known places.
func (n *evening) span() string {
	return fmt.Sprintf("/history?from=%d&to=%d", n.began.Unix(), n.began.Unix()+20*60)
}

// brightness returns the relative brightness of the pixels of a row, y pixels below its upper edge, between two minutes
// of n.span.
func brightness(t *testing.T, ctx context.Context, row, y int, from, until float64) []float64 {
	t.Helper()
	list, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](fmt.Sprintf(`(() => {
		const canvas = document.querySelector("#heatmap"), x = (minute) => Math.round((minute / 20) * canvas.width);
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
		copy.drawImage(canvas, 0, 0);
		const width = x(%g) - x(%g), top = Math.round((26 + 24 * %d + %d) * devicePixelRatio);
		const { data } = copy.getImageData(x(%g), top, width, 1);
		return Array.from({ length: width }, (_, i) => i * 4)
			.map((i) => 0.21 * data[i] + 0.72 * data[i + 1] + 0.07 * data[i + 2]);
	})()`, until, from, row, y, from)))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func spread(list []float64) float64 { return slices.Max(list) - slices.Min(list) }

// TestHeatmap_TellsStatesAndMarksByShape looks at the brightness of the picture alone, as who sees no red or green, in
// each look and on each width.
func TestHeatmap_TellsStatesAndMarksByShape(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg, n := config(t), newEvening(25)
	cfg.History = n
	srv := serve(t, cfg)
	run(t, ctx, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(srv.URL+n.span()),
		says("#heatmap-told", "A cell is 1m"), says("#heatmap-scale", "400/s"))
	for _, m := range modes {
		run(t, ctx, m.set())
		at := func(row, y int, from, until float64) []float64 { return brightness(t, ctx, row, y, from, until) }
		empty := at(3, 22, 2, 3)[0]
		for what, differs := range map[string]bool{
			"a hot key fills its row":           spread(append(at(0, 2, 13.1, 13.9), at(0, 2, 3.1, 3.9)...)) > 20,
			"a loop is hatched":                 spread(at(1, 11, 9, 15)) > 40,
			"a key that is not hot is thin":     spread(append(at(2, 5, 3, 4), at(2, 11, 3.4, 3.6)...)) > 5,
			"and one tone":                      spread(at(2, 11, 3.4, 3.6)) < 20,
			"a denial underlines":               math.Abs(at(0, 22, 13.5, 13.9)[0]-empty) > 80,
			"no denial does not":                math.Abs(at(0, 22, 16.5, 16.9)[0]-empty) < 20,
			"an override is a line":             spread(at(0, 1, 7.5, 11.5)) < 5,
			"which ends":                        spread(at(0, 1, 11.5, 12.5)) > 40,
			"one that is tried is a broken one": spread(at(2, 1, 10, 19)) > 80,
		} {
			if !differs {
				t.Errorf("%v: not so: %s", m, what)
			}
		}
		shot(t, ctx, "heatmap-"+m.String())
	}
	for _, lack := range []emulation.SetEmulatedVisionDeficiencyType{"deuteranopia", "achromatopsia"} {
		run(t, ctx, mode{1440, "light"}.set(), call(emulation.SetEmulatedVisionDeficiency,
			emulation.SetEmulatedVisionDeficiencyParams{Type: lack}))
		shot(t, ctx, "heatmap-"+string(lack))
	}
}

// TestHeatmap_DescribesMarksAndCells goes over the picture by keyboard.
func TestHeatmap_DescribesMarksAndCells(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg, n := config(t), newEvening(25)
	n.add(9*time.Minute, "became_hot", map[string]any{"key": "topic?id=8", "rate": 210, "rule": "topic"})
	cfg.History = n
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	press := func(keys string, told ...string) {
		run(t, ctx, chromedp.KeyEvent(keys))
		for _, text := range told {
			run(t, ctx, says("#heatmap-told", text))
		}
	}
	run(t, ctx, chromedp.EmulateViewport(820, 900), chromedp.Navigate(srv.URL+n.span()),
		says("#heatmap-told", "A cell is 1m"),
		until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"))
	press(kb.Home+kb.ArrowRight+kb.ArrowRight+kb.ArrowRight, "topic?id=42 · not hot, at most 400/s")
	press(kb.PageDown, "topic?id=42 · hot, at most 400/s, 600 allowed and 300 denied by its limit")
	press(kb.ArrowLeft+kb.ArrowLeft+kb.ArrowLeft, "override: limit 60/s by ann")
	press(kb.ArrowUp+kb.Home, "Became hot 300/s · rule topic: topic?id=42")
	press(kb.ArrowRight, "Override set limit 60/s · by ann: topic?id=42")
	press(kb.ArrowRight, "Override set in shadow: limit 60/s · by bob: topic?id=7* · Became hot 210/s")
	press(kb.ArrowDown+kb.ArrowDown+kb.ArrowDown, "topic?id=77 · not hot", "override: in shadow: limit 60/s by bob")
	w.check(t)
}

// TestHeatmap_CutsLabelsInTheMiddle checks that both ends of a long key are readable, decoded, on each width.
func TestHeatmap_CutsLabelsInTheMiddle(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg, n := config(t), newEvening(25)
	cfg.History = n
	srv := serve(t, cfg)
	run(t, ctx, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(srv.URL+n.span()),
		says("#history-keys", "/search?lang=ar&q=الانتخابات results of the day before"))
	for _, m := range modes {
		run(t, ctx, m.set(), until(`(() => {
			const [begin, end] = document.querySelectorAll("#history-keys li:nth-child(4) .key");
			const box = end.getBoundingClientRect(), row = end.closest("li").getBoundingClientRect();
			return begin.scrollWidth > begin.clientWidth && end.textContent == "day before" &&
				box.right <= row.right + 1 && row.height == 24;
		})()`))
	}
}

// TestHeatmap_OpensWhereDataIsAndFollowsTheTime checks that a history of some minutes is not a sliver of a day, that
// the picture renews itself while its rows stay under the pointer, and that "Live" holds it and lets it go.
func TestHeatmap_OpensWhereDataIsAndFollowsTheTime(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg, n := config(t), newEvening(25)
	cfg.History = n
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	const rows = "document.querySelectorAll('#history-keys li').length"
	live := func(yes bool) chromedp.Action[chromedp.Void] {
		return until(fmt.Sprintf("document.querySelector('#history-live').getAttribute('aria-pressed') == '%t'", yes))
	}
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+"/history"),
		says("#heatmap-told", "A cell is 1m"), live(true), until(fmt.Sprintf(`(() => {
			const begin = Number(new URL(document.querySelector("#history-csv").href).searchParams.get("from"));
			return begin <= %[1]d && begin > %[1]d - 180;
		})()`, n.began.Unix())),
		address("/history"), until("(window.had = "+rows+", true)"), until(rows+" > window.had"), address("/history"))
	// The rows stay while a person is in the picture, also if another key is heavier now.
	n.first.Store(true)
	run(t, ctx, until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"),
		says("#history-keys", "first?id=1"), says("#history-keys li:first-child", "topic?id=42"),
		until("(document.activeElement.blur(), true)"), says("#history-keys li:first-child", "first?id=1"),
		clickOn("#history-live"), live(false), until(`/^.from=\d+&to=\d+$/.test(location.search)`))
	asked := n.asked.Load()
	run(t, ctx, clickOn("#history-live"), live(true), address("/history"),
		until("(window.had = "+rows+", true)"), until(rows+" > window.had"))
	if again := n.asked.Load(); again < asked+2 {
		t.Errorf("it was asked %d times before it was held, and %d times at the end", asked, again)
	}
	w.check(t)
}

// drag moves the pointer over the heatmap between two parts of its width, with the button down.
func drag(t *testing.T, ctx context.Context, from, until float64) {
	t.Helper()
	box, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](`(() => {
		const { left, top, width } = document.querySelector("#heatmap").getBoundingClientRect();
		return [left, top, width];
	})()`))
	if err != nil {
		t.Fatal(err)
	}
	move := func(kind input.DispatchMouseEventType, part float64) chromedp.Action[chromedp.Void] {
		return call(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: box[0] + part*box[2],
			Y: box[1] + 40, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1})
	}
	run(t, ctx, move(input.DispatchMouseEventTypeMousePressed, from),
		move(input.DispatchMouseEventTypeMouseMoved, (from+until)/2),
		move(input.DispatchMouseEventTypeMouseMoved, until), says("#heatmap-told", "Escape drops it"))
	shot(t, ctx, "heatmap-brush")
	run(t, ctx, move(input.DispatchMouseEventTypeMouseReleased, until))
}

// TestHeatmap_ZoomsIntoMarkedSpan marks a span by pointer and by keyboard, and goes back.
func TestHeatmap_ZoomsIntoMarkedSpan(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg, n := config(t), newEvening(25)
	cfg.History = n
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	minutes := func(from, until int64) string {
		return fmt.Sprintf("/history?from=%d&to=%d", n.began.Unix()+60*from, n.began.Unix()+60*until)
	}
	// shown waits for the picture of a span, because a mark in the picture before it would be dropped.
	shown := func(span string) chromedp.Action[chromedp.Void] {
		_, query, _ := strings.Cut(span, "?")
		return until(fmt.Sprintf("document.querySelector('#history-csv').href.endsWith('&%s')", query))
	}
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+n.span()), shown(n.span()))
	drag(t, ctx, 0.26, 0.58)
	run(t, ctx, address(minutes(5, 12)), shown(minutes(5, 12)), clickOn("#history-out"), address(n.span()),
		shown(n.span()))
	drag(t, ctx, 0.92, 0.62) // backwards
	run(t, ctx, address(minutes(12, 19)), shown(minutes(12, 19)), until("(history.back(), true)"), address(n.span()),
		shown(n.span()))

	const shift = 8
	press := func(key string, modifiers int64) {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown,
			input.DispatchKeyEventTypeKeyUp} {
			run(t, ctx, call(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: key,
				Modifiers: modifiers}))
		}
	}
	run(t, ctx, until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"))
	press("Home", 0)
	press("ArrowRight", shift)
	run(t, ctx, says("#heatmap-told", "2m 00s; Escape drops it"))
	press("Escape", 0)
	press("ArrowRight", 0)
	run(t, ctx, says("#heatmap-told", "topic?id=42 · not hot"))
	for range 3 {
		press("ArrowRight", shift)
	}
	press("Enter", 0)
	run(t, ctx, address(minutes(2, 6)), shown(minutes(2, 6)),
		until("(document.querySelector('#heatmap').focus(), document.activeElement.id == 'heatmap')"))
	press("-", 0)
	run(t, ctx, address(n.span()), shown(n.span()))

	// The picture of a span that was just chosen ends a mark that began in the picture before it.
	run(t, ctx, until(`(document.querySelector('#history-spans a').click(), document.querySelector('#heatmap')
		.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', shiftKey: true})), true)`),
		until("document.querySelector('#history-spans a[aria-current]')"))

	// A colleague who was sent the link has no way behind it, and sees three times the span.
	run(t, ctx, chromedp.Navigate(srv.URL+minutes(8, 10)), shown(minutes(8, 10)),
		clickOn("#history-out"), address(minutes(6, 12)))
	w.check(t)
}

// TestHistory_ListsNewestEventsFirst has more events than the page lists, and than the server answers.
func TestHistory_ListsNewestEventsFirst(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg, n := config(t), newEvening(25)
	for i := range 996 {
		at := 15*time.Minute + time.Duration(i)*time.Millisecond
		n.add(at, "cooled", map[string]any{"key": fmt.Sprintf("topic?id=%d", i)})
	}
	n.add(16*time.Minute, "override_put", map[string]any{"key": "topic?id=42", "author": "the last of all"})
	cfg.History = n
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+n.span()),
		says("#history-events li:first-child", "by the last of all"),
		says("#history-events li:nth-child(2)", "topic?id=995"),
		says("#history-events-note", "The newest 200 of more than 1,000, back to "+
			n.began.Add(15*time.Minute).Format("15:04:05")),
		until("document.querySelectorAll('#history-events li').length == 200"))
	shot(t, ctx, "history-many-events")
	w.check(t)
}
