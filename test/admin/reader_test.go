package admin_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// floodRules protect all pages of a repository browser together. A pass counts after two seconds, so that the test need
// not wait longer.
const floodRules = `
ip: {trusted_proxies: [127.0.0.1]}
rules:
  - {name: blame, match: {path: "/blame/{rev}/{file}"}, params: [], hot: {rate: 10, window: 1s},
     limit: {rate: 20, burst: 24, priority: [visitor]}}
classes:
  - {name: visitor, pass_age: 2s}
`

// flood asks for a new page each time, from a new address, until the test ends. refused counts its denials that have a
// pass: a program that has just started may not have a secret for passes yet.
func (s *site) flood(t *testing.T, refused *atomic.Int64) {
	ctx, cancel := context.WithCancel(context.Background())
	var crawlers sync.WaitGroup
	for range 4 {
		crawlers.Go(func() {
			for ctx.Err() == nil {
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet,
					fmt.Sprintf("http://%s/blame/%x/f", s.addr, rand.Uint64()), nil)
				req.Header.Set("X-Forwarded-For", fmt.Sprintf("20.%d.%d.1", rand.IntN(256), rand.IntN(256)))
				if answer, err := http.DefaultClient.Do(req); err == nil {
					answer.Body.Close()
					if answer.StatusCode == http.StatusTooManyRequests && answer.Header.Get("Set-Cookie") != "" {
						refused.Add(1)
					}
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); crawlers.Wait() })
}

// documents records the statuses of the documents that a browser has loaded.
type documents struct {
	mu       sync.Mutex
	statuses []int64
}

func recordDocuments(t *testing.T, ctx context.Context) *documents {
	t.Helper()
	d := &documents{}
	err := chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*network.EventResponseReceived); ok && e.Type == network.ResourceTypeDocument {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.statuses = append(d.statuses, e.Response.Status)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, ctx, call(network.Enable, network.EnableParams{}))
	return d
}

// sinceDenial returns the statuses from the first denial on.
func (d *documents) sinceDenial() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.statuses, http.StatusTooManyRequests); i >= 0 {
		return slices.Clone(d.statuses[i:])
	}
	return nil
}

// TestReader_IsRefusedOnceInAFlood opens pages in a browser while a crawler takes all of their limit. The first page is
// refused, opens by itself after Retry-After, and the next six open at once, with JavaScript and without.
func TestReader_IsRefusedOnceInAFlood(t *testing.T) {
	t.Parallel()
	program.Ours(t) // building them may take longer than a browser waits
	for _, scripts := range []bool{true, false} {
		t.Run(fmt.Sprintf("scripts %v", scripts), func(t *testing.T) {
			t.Parallel()
			readInFlood(t, scripts)
		})
	}
}

func readInFlood(t *testing.T, scripts bool) {
	ctx := browser(t)
	var passes, refused atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Cookie"), "hotparam") {
			passes.Add(1)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!DOCTYPE html><title>blame</title><p>a page")
	}))
	t.Cleanup(upstream.Close)
	s, dir := &site{freeport.Addr(t), freeport.Addr(t)}, t.TempDir()
	config := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(config, []byte(floodRules), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", s.addr,
		"--admin.listen", s.admin, "--state.dir", filepath.Join(dir, "state"))
	s.ready(t)
	s.flood(t, &refused)
	program.Await(t, time.Minute, "the crawler to be refused", func() bool { return refused.Load() > 50 })

	if !scripts {
		run(t, ctx, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	}
	loaded := recordDocuments(t, ctx)
	page := 0
	open := func() {
		page++
		run(t, ctx, chromedp.Navigate(fmt.Sprintf("http://%s/blame/reader/%d", s.addr, page)))
	}
	for page < 100 && loaded.sinceDenial() == nil { // a token may return just as the reader asks
		open()
	}
	began := time.Now()
	program.Await(t, 2*time.Minute, "the page to open by itself", func() bool {
		return slices.Contains(loaded.sinceDenial(), http.StatusOK)
	})
	t.Logf("in after %v", time.Since(began))
	for range 6 {
		open()
	}
	program.Await(t, time.Minute, "all pages to be recorded", func() bool { return len(loaded.sinceDenial()) >= 8 })
	if got, want := fmt.Sprint(loaded.sinceDenial()), "[429 200 200 200 200 200 200 200]"; got != want {
		t.Errorf("the reader was answered %s, want %s", got, want)
	}
	if n := passes.Load(); n > 0 {
		t.Errorf("the upstream saw the pass %d times", n)
	}
}
