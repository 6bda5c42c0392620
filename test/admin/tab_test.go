package admin_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/report"
)

// tab is a page in a browser of its own, whose work is measured.
type tab struct {
	name string
	ctx  context.Context
	cpu  float64   // seconds of the process of the page, before
	heap []float64 // bytes in use after a collection, each minute
}

// usage returns the processor time of the processes of pages, in seconds.
func (b *tab) usage(t *testing.T) (sum float64) {
	t.Helper()
	info, err := chromedp.CallBrowser(b.ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range info.ProcessInfo {
		if p.Type == "renderer" {
			sum += p.CPUTime
		}
	}
	return sum
}

func (b *tab) measureHeap(t *testing.T) {
	t.Helper()
	run(t, b.ctx, call(heapprofiler.CollectGarbage, cdp.Empty{}))
	used, err := chromedp.Call(b.ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	b.heap = append(b.heap, used.UsedSize)
}

// TestTab_CostsLittleOverMinutes measures tabs that stay open beside each other for HOTPARAM_TAB (make tab: 5m): the
// views Now and History of a site with 300 hot keys, 100 loops and an hour of history, and the page of a site without
// requests. It prints the processor time of each, as a part of a core, and its heap.
func TestTab_CostsLittleOverMinutes(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("HOTPARAM_TAB"))
	if err != nil {
		t.Skip("HOTPARAM_TAB is no length: the work of a tab is not measured")
	}
	full, empty := config(t), config(t)
	full.Hot = busy(300)
	full.Loops = func() []hottype.HotKey {
		loops := busy(100)()
		for i := range loops {
			loops[i].Key = hottype.Key(fmt.Sprintf("topic?id=loop%d", i))
		}
		return loops
	}
	empty.Hot = func() []hottype.HotKey { return nil }
	empty.Loops, empty.History = empty.Hot, nil
	empty.Reports = func(context.Context) ([]report.Limiter, error) { return nil, nil }
	open := func(name string, cfg admin.Config, path, ready string) *tab {
		b := &tab{name: name, ctx: browserFor(t, mostOfTest+length)}
		run(t, b.ctx, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(serve(t, cfg).URL+path),
			until(fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", ready)))
		return b
	}
	tabs := []*tab{open("empty", empty, "/", "#hot-empty"), open("Now", full, "/", "#loops tbody tr"),
		open("History", full, "/history?last=hour", "#minute-table tbody tr")}
	time.Sleep(min(30*time.Second, length/4)) // what a page does once is done
	for _, b := range tabs {
		b.measureHeap(t)
		b.cpu = b.usage(t)
	}
	began := time.Now()
	for time.Since(began) < length {
		time.Sleep(min(time.Minute, length/4))
		for _, b := range tabs {
			b.measureHeap(t)
		}
	}
	lasted := time.Since(began).Seconds()
	for _, b := range tabs {
		part, first, last := (b.usage(t)-b.cpu)/lasted, b.heap[0], b.heap[len(b.heap)-1]
		t.Logf("%-8s %.1f %% of a core over %.0f s; heap %.1f MB, and %.1f MB at the end", b.name, 100*part, lasted,
			first/1e6, last/1e6)
		if part > 0.05 {
			t.Errorf("%s takes %.1f %% of a core", b.name, 100*part)
		}
		if last > first*1.2+1e6 {
			t.Errorf("the heap of %s grows: %.0f", b.name, b.heap)
		}
	}
}
