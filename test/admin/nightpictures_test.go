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

	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

const nightRules = `
ip: {trusted_proxies: [127.0.0.0/8], sliding: {limit: 600, window: 1m}}
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 2s, min_clients: 5},
     limit: {rate: 40, burst: 40}}
  - {name: search, match: {path: /search}, params: [q], hot: {rate: 20, window: 2s, min_clients: 5}}
`

// nightParts are the lengths of the parts of a night.
var nightParts = struct{ calm, begin, held, over time.Duration }{150 * time.Second, 2 * time.Minute, 3 * time.Minute,
	90 * time.Second}

// TestPictures_TellANight takes the pictures of a night with an incident from a real program: it is calm; a topic goes
// viral while a client loops; an operator limits the topic and blocks the client; and the history tells of it when it
// is over. It runs for make pictures alone and checks nothing: view each picture before it is committed.
func TestPictures_TellANight(t *testing.T) {
	dir := os.Getenv("HOTPARAM_PICTURES")
	if dir == "" {
		t.Skip("HOTPARAM_PICTURES names no directory for the pictures")
	}
	program.Ours(t)
	ctx := browser(t)
	s := serveNight(t)
	base := "http://" + s.admin
	take := func(name string, conditions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		run(t, ctx, chromedp.Steps(conditions...), drawn)
		png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "night-"+name+".png"), png, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	clients := func(n int, form string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf(form, i+1))
		}
		return list
	}
	readers := clients(120, "198.51.100.%d")
	for i := range 8 {
		s.asks(t, fmt.Sprintf("/topic?id=%d", 101+i), 1+i/2, readers[7*i:]...)
	}
	s.asks(t, "/search?lang=ar&q=%D8%A7%D9%84%D8%A7%D9%86%D8%AA%D8%AE%D8%A7%D8%A8%D8%A7%D8%AA", 4, readers...)
	began := time.Now()
	run(t, ctx, chromedp.EmulateViewport(1280, 800), scheme("dark"), chromedp.Navigate(base))
	time.Sleep(nightParts.calm)
	take("calm", says("#verdict .sentence", "Nothing is hot"), says("#closest", "topic?id="))
	t.Run("rush", func(t *testing.T) {
		s.asks(t, "/topic?id=4242", 50, clients(250, "203.0.113.%d")...)
		s.asks(t, "/topic?id=4242", 40, readers...)
		s.asks(t, "/topic?id=7", 30, "192.0.2.77")
		time.Sleep(nightParts.begin)
		take("begin", says("#verdict .sentence", "topic?id=4242"), says("#verdict .others", "is a loop"),
			says("#hot-table tbody tr", "topic?id=4242"), atFullRate)
		putOverride(t, base, `{"key": "topic?id=4242", "rate": 25, "burst": 25, "for": "1h", "author": "ann",
			"reason": "the newsletter names it; the page is slow from 25/s on"}`)
		putOverride(t, base, `{"client": "192.0.2.77", "action": "block", "for": "2h", "author": "ann",
			"reason": "a script in a loop"}`)
		time.Sleep(nightParts.held)
		take("held", says("#verdict .sentence", "held to 25/s, burst 25 by ann"), atFullRate)
	})
	run(t, ctx, says("#verdict .sentence", "Nothing is hot"))
	time.Sleep(nightParts.over)
	remove(t, base, "topic?id=4242")
	time.Sleep(10 * time.Second)
	address := fmt.Sprintf("%s/history?from=%d&to=%d", base, began.Unix(), time.Now().Unix())
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(address))
	take("over", says("#history-events li:first-child", "Override removed"), says("#history-events", "Cooled"))
}

// atFullRate waits for a second in which a busy machine sends what the test asks for.
var atFullRate = until(`parseFloat(document.querySelector("#hot-table .rate small")?.textContent) >= 4 &&
	parseFloat(document.querySelector("#hot-table .bad").textContent) >= 40`)

// serveNight starts `hotparam serve` in front of a site that answers after some milliseconds.
func serveNight(t *testing.T) *site {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	s, dir := &site{freeport.Addr(t), freeport.Addr(t)}, t.TempDir()
	config := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(config, []byte(nightRules), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", s.addr,
		"--admin.listen", s.admin, "--state.dir", filepath.Join(dir, "state"))
	s.ready(t)
	return s
}

// remove removes the override of a key, as ann.
func remove(t *testing.T, base, key string) {
	t.Helper()
	id := rules.Override{Key: key, Action: rules.ActionLimit}.DefaultID()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, base+"/v1/overrides/"+id+
		"?author=ann", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatalf("the override of %s is not removed: %s", key, answer.Status)
	}
}
