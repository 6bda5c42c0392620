package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/test/internal/program"
)

// shifted is a clock of a program that differs from the clock of the browser.
type shifted struct{ by atomic.Int64 }

func (s *shifted) now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

// TestPage_AsksToSignInAgain checks that a token which has expired is not called a lost connection: the page asks
// nothing more of the server, and its button loads the page again.
func TestPage_AsksToSignInAgain(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	clock, cfg := &shifted{}, config(t)
	tokens, err := auth.ParseTokens("admin.tokens", map[string]string{
		"ann": auth.FormatToken(auth.Operator, "s3cret-of-the-test", time.Now().Add(time.Hour))})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Now, cfg.Access.Tokens = clock.now, tokens
	srv := serve(t, cfg)
	var loads, refused atomic.Int64
	handler := srv.Config.Handler
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/audit" {
			loads.Add(1)
		}
		if handler.ServeHTTP(w, r); strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
			refused.Add(1)
		}
	})
	signIn := chromedp.Navigate(strings.Replace(srv.URL, "//", "//ann:s3cret-of-the-test@", 1))
	run(t, ctx, chromedp.EmulateViewport(1280, 900), signIn, says("#status .good", "live"),
		says("#hot-table", "topic?id=42"))
	clock.by.Store(int64(2 * time.Hour))
	srv.CloseClientConnections()
	run(t, ctx, says("#banner:not([hidden])", "does not accept your sign-in any more"),
		says("#banner button", "Sign in again"), says("#status .poor", "signed out"))
	shot(t, ctx, "signed-out")
	run(t, ctx, clickOn("#views a[href='/audit']"), says("#audit-note", "does not accept your sign-in any more"))
	if n := refused.Load(); n > 3 {
		t.Errorf("the server refused %d requests of a page that is signed out", n)
	}
	clock.by.Store(0)
	run(t, ctx, clickOn("#banner button"))
	// The browser asks the person for a password now, and the test puts it into the address.
	program.Await(t, time.Minute, "the page to be loaded again", func() bool { return loads.Load() > 0 })
	run(t, ctx, signIn, says("#status .good", "live"), until("document.querySelector('#banner').hidden"))
}

// TestTimesLeft_FollowTheServersClock has a server whose clock is ten minutes before the browser's.
func TestTimesLeft_FollowTheServersClock(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	clock, cfg := &shifted{}, config(t)
	clock.by.Store(int64(10 * time.Minute))
	cfg.Now = clock.now
	srv := serve(t, cfg)
	putOverride(t, srv.URL, `{"key": "topic?id=42", "rate": 20, "for": "46m"}`)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(srv.URL+"/overrides"),
		until("/^45m .*left$/.test(document.querySelector('#overrides .until')?.textContent)"),
		clickOn(`#overrides [data-act="extend"]`),
		until("/^1h 45m left$/.test(document.querySelector('#overrides .until').textContent)"))
}

// TestPage_ShowsWhatIsTrue checks texts of the page that were once wrong.
func TestPage_ShowsWhatIsTrue(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	set, err := rules.Parse("rules.yaml", []byte(rulesFile+"ip:\n  fixed: {limit: 10, window: 1s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.Rules = func() *rules.Set { return set }
	cfg.Reports = func(context.Context) ([]report.Limiter, error) {
		list := liveReports(time.Now())
		list[0].Served = list[0].Keys[1].Cached
		list[0].Keys = append(list[0].Keys, report.KeyDecisions{Key: "topic?id=5"}) // no request meets its override
		return list, nil
	}
	cfg.Upstreams = func() []hottype.UpstreamLimit {
		return []hottype.UpstreamLimit{{Name: "default", Why: "not limited", LatencySeconds: 0.021, TargetSeconds: 0.08}}
	}
	srv := serve(t, cfg)
	putOverride(t, srv.URL, `{"key": "topic?id=5", "rate": 20,
		"schedule": {"from": "0 20 * * *", "for": "2h", "zone": "Europe/Berlin"}}`)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), scheme("light"), chromedp.Navigate(srv.URL))

	// The buttons at clients name their target.
	run(t, ctx, says("#clients [data-act=block]", "Block client"), says("#loops [data-act=limit]", "Limit client"),
		says("#heaviest [data-act=exempt]", "Exempt client"), says("#hot-table [data-act=block]", "Block"))

	// A response that the cache served was not allowed to the upstream.
	row := "#hot-table tbody tr:nth-child(2) "
	run(t, ctx, until("document.querySelector('"+row+".ok').textContent == '15'"), says(row+".served", "85"),
		until("document.querySelector('#allowed').textContent == '845'"), says("#allowed-note", "85/s from the cache"))
	shot(t, ctx, "truth-now")

	// A limit that denies most requests is not shown in green, and a rate that is not known has no unit.
	run(t, ctx, chromedp.Navigate(srv.URL+"/key?key=topic%3Fid%3D42"), says("#w-result", "would have denied"),
		fill("#w-rate", "30"), fill("#w-burst", "30"),
		until("((m) => m.value > m.high && m.optimum < m.low)(document.querySelector('#w-meter'))"))
	shot(t, ctx, "truth-meter")
	run(t, ctx, chromedp.Navigate(srv.URL+"/key?key=topic%3Fid%3D5"), says("#key-allowed", "0"),
		until("document.querySelector('#key-rate').textContent == '0'"),
		chromedp.Navigate(srv.URL+"/key?key=topic%3Fid%3D6"), says("#key-rate", "–"),
		until("['key-rate', 'key-allowed', 'key-denied'].every((id) => !document.querySelector(`#${id} + small`).checkVisibility())"))

	// The view of a client names the window that denies it.
	run(t, ctx, chromedp.Navigate(srv.URL+"/client?client=192.0.2.77"),
		says("#client-holds .applies", "Per address 10 in 1s"), says("#client-holds .applies .badge", "denies it now"),
		says("#client-acts [data-act=block]", "Block client"))
	shot(t, ctx, "truth-client")

	run(t, ctx, chromedp.Navigate(srv.URL+"/audit"),
		until("document.querySelector('#upstreams li span:last-child')?.textContent == 'is not limited · 21 ms of 80 ms'"))

	// A name of a time zone is not broken within a word, and a number of one takes a singular.
	run(t, ctx, chromedp.Navigate(srv.URL+"/overrides"), says("#overrides tbody", "(Europe/Berlin)"))
	for _, width := range []int64{1280, 1440, 820, 390} {
		run(t, ctx, chromedp.EmulateViewport(width, 900), until(fmt.Sprintf("innerWidth == %d", width)))
		broken, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](brokenWords))
		if err != nil || len(broken) > 0 {
			t.Errorf("%d pixels: %q break, %v", width, broken, err)
		}
	}
	one := filepath.Join(t.TempDir(), "one.json")
	if err := os.WriteFile(one, []byte(`[{"key": "topic?id=9", "action": "limit", "rate": 5}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, ctx, chromedp.SetUploadFiles(chromedp.CSS("#import"), []string{one}), says("#toast", "Set 1 of 1 override."))

	run(t, ctx, clickOn("#add-override"), until("document.activeElement.id == 'f-key'"), fill("#f-key", "topic?id=8"),
		fill("#f-rate", "8"), until("document.querySelector('#dialog').open"))
	srv.CloseClientConnections()
	srv.Listener.Close()
	run(t, ctx, clickOn("#dialog-save"),
		says("#e-form", "The server cannot be reached. Nothing was changed; try again when it is back."))
}
