package admin_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// hostileValues are values that strangers may write into a URL, a name or a reason.
var hostileValues = []string{
	"<script>window.pwned=1</script>", "<img src=x onerror=window.pwned=1>", `"><svg onload=window.pwned=1>`,
	"'-alert(1)-'", "</title><script>window.pwned=1</script>",
	"javascript:window.pwned=1", "{{constructor.constructor('window.pwned=1')()}}", "${window.pwned=1}",
	"&lt;b&gt;&amp;", "]]><!--",
	"\u202egnp.exe", "a\u2066b\u2069c", "\u200b\u200c\u200d\ufeff", "\x00\x01\x7f", "line\r\nbreak\u2028more",
	"\xff\xfe\xc0", strings.Repeat("long", 2048),
	"=HYPERLINK(\"http://x\",\"y\")", "@SUM(1+1)*cmd|' /C calc'!A0", "../../../etc/passwd?__proto__[x]=1",
	"%00%ff%2e%2e",
}

// hostileHistory returns each of hostileValues as a key and as an event of the last hour.
type hostileHistory struct{ kept }

func (*hostileHistory) Heatmap(_ context.Context, q history.HeatmapQuery) (*history.Heatmap, error) {
	m := &history.Heatmap{From: q.From, To: q.To, Step: int64(q.Step / time.Second), Events: []history.Event{}}
	for i, v := range hostileValues {
		m.Keys = append(m.Keys, history.HeatmapKey{Key: hottype.Key(v), Rule: "topic",
			Cells: []history.Cell{{At: int64(i), State: history.Hot, Peak: 9}}})
		m.Events = append(m.Events, history.Event{At: q.To.Add(-time.Second), Kind: v, Key: v,
			Detail: []byte(`{"author":"<b onclick=window.pwned=1>","rule":"<i>"}`)})
	}
	return m, nil
}

func (h *hostileHistory) Read(context.Context, history.Query) (*history.Answer, error) {
	return &h.answer, nil
}

// TestHostileValues_AreText checks that hostile values are text in every view and in the export.
func TestHostileValues_AreText(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	cfg := config(t)
	past := &hostileHistory{kept{history.Answer{Totals: []history.Total{}, Spans: []history.Span{},
		Events: []history.Event{}}}}
	var hot []hottype.HotKey
	for i, v := range hostileValues {
		h := hotKey(v, "topic", float64(900-i), time.Now())
		h.Clients, h.HeaviestClient = 3, v
		hot = append(hot, h)
		past.answer.Keys = append(
			past.answer.Keys,
			history.KeyMinute{
				Minute: time.Now().Truncate(time.Minute),
				Key:    h.Key,
				Rule:   v,
				State:  history.Hot,
				Peak:   1,
			},
		)
	}
	cfg.Hot, cfg.History = func() []hottype.HotKey { return hot }, past
	cfg.Loops = func() []hottype.HotKey { return hot }
	srv := serve(t, cfg)
	w := watch(t, ctx, srv.URL)
	// wrong describes each fault in words.
	const wrong = `[window.pwned && "a script ran",
		...[...document.querySelectorAll("main script, main svg:not(.spark), main img, main iframe, main b[onclick]")].map((n) => "markup: " + n.outerHTML),
		...(document.body.textContent.match(/[\u0000-\u0008\u007f\u2028\u202a-\u202e\u2066-\u2069\u200b].{0,20}/g) ?? []).map((s) => "unseen: " + escape(s)),
		document.documentElement.scrollWidth > innerWidth && "wider than the window: " + document.documentElement.scrollWidth].filter(Boolean)`
	calm := func(view string) {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](wrong))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Errorf("%s: %s", view, f)
		}
	}
	run(t, ctx, chromedp.EmulateViewport(1280, 900), scheme("light"), chromedp.Navigate(srv.URL),
		until(
			fmt.Sprintf("document.querySelectorAll('#hot-table tbody tr').length == %d", len(hot))),
		clickOn("#loops .rest button"), says("#loops .rest", "1 more"), clickOn("#loops .rest button"),
		until(fmt.Sprintf("document.querySelectorAll('#loops tbody tr').length == %d", len(hot))),
		says("#hot-table", "<script>window.pwned=1</script>"), says("#events", "U+202Egnp.exe"))
	calm("/")
	setHostileOverrides(t, ctx, srv.URL)
	for view, ready := range map[string]string{
		"/history?last=hour": "#history-keys li:nth-child(21) a", "/overrides": "#overrides tbody tr:nth-child(9)",
		"/audit": "#audit tbody tr:nth-child(8)",
		"/key/%22%3E%3Csvg%20onload=window.pwned=1%3E": "#key-limits li",
		"/key/%00%01%7F%FF%E2%80%AE":                   "#key-name .unseen-char",
	} {
		run(t, ctx, chromedp.Navigate(srv.URL+view), until(fmt.Sprintf("document.querySelector(%q)", ready)))
		calm(view)
	}
	w.check(t)
	exportIsText(t, srv.URL)
}

// setHostileOverrides sets one of each value that may be a reason, by the page's own way.
func setHostileOverrides(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	for i, v := range hostileValues[:9] {
		body := fmt.Sprintf(`{"key": "topic?id=%d", "action": "block", "reason": %q, "author": %q}`, i, v, v)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url+"/v1/overrides", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			t.Errorf("%s: %s", body, answer.Status)
		}
	}
}

// exportIsText checks that no cell of the export is a formula, and that each cell is otherwise unchanged.
func exportIsText(t *testing.T, url string) {
	t.Helper()
	answer, err := http.Get(url + "/v1/history?format=csv")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	rows, err := csv.NewReader(answer.Body).ReadAll()
	if err != nil || len(rows) != len(hostileValues)+1 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for i, v := range hostileValues {
		for _, cell := range rows[i+1][1:3] {
			// The reader of CSV makes line feeds of all ends of lines.
			if strings.ContainsAny(cell[:1], "=+-@\t\r") ||
				strings.TrimPrefix(cell, "'") != strings.TrimPrefix(strings.ReplaceAll(v, "\r\n", "\n"), "'") {
				t.Errorf("%q is %q", v, cell)
			}
		}
	}
}
