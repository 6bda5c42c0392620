package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// part is one of our programs, which can be started again with the same arguments.
type part struct {
	t     *testing.T
	name  string
	args  []string
	admin string
	*program.Process
}

func startPart(t *testing.T, name string, args ...string) *part {
	t.Helper()
	p := &part{t: t, name: name, admin: freeport.Addr(t)}
	p.args = append(args, "--admin.listen", p.admin)
	p.Process = program.Launch(t, p.name, p.args...)
	return p
}

func (p *part) ready() {
	p.t.Helper()
	(&site{admin: p.admin}).ready(p.t)
}

// fleet is every process of a pipeline: a collector that receives each request by mirroring, an aggregator with the
// page, two limiters in front of a site, and Redis, which keeps its data over a restart.
type fleet struct {
	t                     *testing.T
	redis                 *redistest.Server
	collector, aggregator *part
	limiters              [2]*part
	sites                 [2]*site // the site behind each limiter
	mirror                string
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	// Redis is stopped in the ordinary way, so that it need not wait for a disk that other tests keep busy.
	f := &fleet{t: t, mirror: freeport.Addr(t), redis: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no")}
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	config, statsd := filepath.Join(t.TempDir(), "hotparam.yaml"), freeport.Addr(t)
	const rules = "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s}}]\n"
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	f.aggregator = startPart(t, "aggregator", "--config", config, "--redis.addr", f.redis.Addr(),
		"--statsd.listen", statsd, "--state.dir", t.TempDir())
	f.collector = startPart(t, "collector", "--config", config, "--statsd.addr", statsd, "--mirror.listen", f.mirror,
		"--mirror.uri_header", "X-Original-URI")
	for i := range f.limiters {
		f.sites[i] = &site{addr: freeport.Addr(t)}
		f.limiters[i] = startPart(t, "limiter-sidecar", "--config", config, "--redis.addr", f.redis.Addr(),
			"--proxy.listen", f.sites[i].addr, "--proxy.upstream", upstream.URL, "--sidecar.count", "none",
			"--decide.listen", freeport.Addr(t))
	}
	for _, p := range f.parts() {
		p.ready()
	}
	return f
}

func (f *fleet) parts() []*part {
	return []*part{f.collector, f.limiters[0], f.limiters[1], f.aggregator}
}

// rush mirrors requests for a topic to the collector until the test ends.
func (f *fleet) rush(path string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.mirror+"/mirror", nil)
			if err != nil {
				return
			}
			req.Header.Set("X-Original-URI", path)
			if answer, err := http.DefaultClient.Do(req); err == nil { // the collector restarts too
				answer.Body.Close()
			}
		}
	}()
	f.t.Cleanup(func() { cancel(); <-done })
}

// blocked checks that no limiter lets a request for the topic through.
func (f *fleet) blocked(when string) {
	f.t.Helper()
	for i, s := range f.sites {
		if got := s.status(f.t, "/topic?id=viral"); got < 400 || got >= 500 {
			f.t.Errorf("%s limiter %d answers %d", when, i+1, got)
		}
	}
}

// TestOverride_OutlivesEveryProcess checks that a block outlives restarts: a viral topic is seen on the page and
// blocked by keyboard. Then each process of the pipeline restarts, also the process that serves the page. The block
// holds and is shown all the time; in the end it is undone by keyboard, and all of it is in the audit.
func TestOverride_OutlivesEveryProcess(t *testing.T) {
	t.Parallel()
	program.Ours(t) // building them may take longer than a browser waits
	f := startFleet(t)
	ctx := browser(t)
	page := "http://" + f.aggregator.admin
	w := watch(t, ctx, page)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(page),
		says("#hot-empty:not([hidden])", "Nothing is hot"))
	f.rush("/topic?id=viral")
	run(t, ctx, says("#hot-table tbody tr", "topic?id=viral"))
	took := time.Since((&site{admin: f.aggregator.admin}).since(t, "topic%3Fid=viral"))
	// Within a second on a machine of its own; patience is for one on which other tests run too.
	if t.Logf("on the page %v after detection", took); took > patience {
		t.Errorf("on the page %v after detection", took)
	}
	press := func(selector string) {
		tabTo(t, ctx, selector)
		run(t, ctx, chromedp.KeyEvent(kb.Enter))
	}
	press(`[aria-label="Block topic?id=viral"]`)
	run(t, ctx, until("document.querySelector('#dialog').open && document.activeElement.id == 'f-reason'"),
		chromedp.KeyEvent("a scraper"+kb.Enter))
	secondWord(t, ctx, "!document.querySelector('#dialog').open")
	run(t, ctx, says("#toast", "Set topic?id=viral to block"))
	f.blocked("after the toast,")
	press("#views a[href='/overrides']")
	shown := chromedp.Steps(says("#status .good", "live"), until("document.querySelector('#banner').hidden"),
		says("#overrides .do-block", "topic?id=viral"), says("#overrides .do-block", "a scraper"))
	run(t, ctx, shown, says("#overrides-reach", "All 2 limiters have them"))
	w.check(t) // while the server is gone the browser itself complains

	f.restartAll(ctx, shown)

	run(t, ctx, says("#overrides-reach", "All 2 limiters have them"))
	press(`#overrides [data-act="undo"]`)
	run(t, ctx, says("#toast", "Undone"), until("!document.querySelector('#overrides .do-block')"))
	for i, s := range f.sites {
		program.Await(t, time.Minute, fmt.Sprintf("limiter %d to let the topic pass", i+1), func() bool {
			return s.status(t, "/topic?id=viral") == http.StatusOK
		})
	}
	press("#views a[href='/audit']")
	run(t, ctx, until("document.querySelectorAll('#audit tbody tr').length == 2"),
		says("#audit tbody tr:nth-child(2)", "set: block"), says("#audit tbody tr:nth-child(2)", "a scraper"))
	press("#views a[href='/']")
	run(t, ctx, says("#hot-table tbody tr", "topic?id=viral"))
}

// restartAll restarts the processes in turn. While one of them is down, the others hold the block.
func (f *fleet) restartAll(ctx context.Context, shown chromedp.Action[chromedp.Void]) {
	f.t.Helper()
	again := func(name string, down func(), up func()) {
		f.t.Helper()
		down()
		up()
		for _, p := range f.parts() {
			p.ready()
		}
		f.blocked("after a restart of " + name + ",")
		run(f.t, ctx, shown)
	}
	for i, p := range f.parts() {
		again(fmt.Sprintf("%s (%d)", p.name, i), func() {
			if code := p.Stop(); code != 0 {
				f.t.Errorf("%s ended with %d", p.name, code)
			}
			if p == f.aggregator {
				run(f.t, ctx, says("#banner:not([hidden])", "trying again"))
				f.blocked("without the aggregator,")
			}
		}, func() { p.Process = program.Launch(f.t, p.name, p.args...) })
	}
	again("Redis", func() { f.redis.Stop(); f.blocked("without Redis,") }, f.redis.Restart)
}
