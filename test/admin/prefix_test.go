package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/admin"
)

// ownPage runs a service that mounts the page below a prefix beside the protected handler, with a viral topic.
func ownPage(t *testing.T, prefix, token string) string {
	t.Helper()
	rules, err := hotparam.ParseRules("rules.yaml", []byte(`
ip: {trusted_proxies: [127.0.0.0/8]}
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 15, window: 1s}, limit: {rate: 10}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	page, err := admin.New(p, admin.Config{Token: token, Version: "of a service"})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, page))
	mux.Handle("/", p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})))
	srv := httptest.NewServer(mux)
	srv.Config.RegisterOnShutdown(page.CloseStreams)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		if err := srv.Config.Shutdown(context.Background()); err != nil { // an open page does not hold it up
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s := &site{addr: strings.TrimPrefix(srv.URL, "http://")}
	readers := make([]string, 40)
	for i := range readers {
		readers[i] = fmt.Sprintf("198.51.100.%d", i+1)
	}
	s.asks(t, "/topic?id=42", 50, readers...)
	return strings.Replace(srv.URL, "//", "//anna:"+token+"@", 1)
}

// TestPage_WorksBelowPrefix checks that every view of the page works in a mux that has it below a prefix and asks for a
// token: links, a reload of a view's address, live events, a change and its undo.
func TestPage_WorksBelowPrefix(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	const prefix, token = "/ops/hotparam", "a-token-of-the-test"
	url := ownPage(t, prefix, token)
	at := func(path string) chromedp.Action[chromedp.Void] {
		return until("location.pathname + location.search == '" + prefix + path + "'")
	}
	w := watch(t, ctx, url+prefix, "http://"+url[strings.Index(url, "@")+1:]+prefix) // nothing outside of the prefix
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url+prefix+"/"),
		says("#version", "of a service"), says("#hot-table tbody", "topic?id=42"), says("#status", "live"))
	run(t, ctx, clickOn("#hot-table tbody th a"), at("/key?key=topic%3Fid%3D42"), says("#key-name", "topic?id=42"),
		says("#key-state", "hot"))
	for _, view := range []string{"/overrides", "/audit", "/"} {
		run(t, ctx, clickOn("#views a[href='"+prefix+view+"']"), at(view))
	}
	// A view's own address, as from a link in a chat.
	run(t, ctx, chromedp.Navigate(url+prefix+"/key/topic%3Fid=42"), says("#key-state", "hot"),
		clickOn(`#key-acts [data-act="block"]`), until("document.querySelector('#dialog').open"),
		chromedp.KeyEvent("viral"+kb.Enter))
	secondWord(t, ctx, "!document.querySelector('#dialog').open")
	run(t, ctx, says("#toast", "topic?id=42"), clickOn("#views a[href='"+prefix+"/audit']"),
		says("#audit tbody tr", "anna"))
	w.check(t)
}
