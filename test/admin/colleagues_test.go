package admin_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPage_LeavesChangeOfColleague checks that an operator's page cannot take away a second operator's block unseen:
// the second operator blocks the override that the first one has just changed. Neither the Undo of the message or of
// the row, nor a dialog that was opened before, removes the block, and each names the operator who set it. The change
// can be undone from the state that is seen now.
func TestPage_LeavesChangeOfColleague(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	const prefix, token = "/ops", "a-token-of-the-test"
	page := ownPage(t, prefix, token)
	u, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	put := func(body string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPut, "http://"+u.Host+prefix+"/v1/overrides/shared?confirm=true",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("bob", token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode > 201 {
			t.Fatalf("%s: %s", resp.Status, text)
		}
	}
	const limited = `{"key": "topic?id=shared", "rate": 50, "for": "1h"}`
	put(limited)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(page+prefix+"/overrides"),
		says("#overrides .badge", "limit 50/s"), clickOn(`#overrides [data-act="extend"]`),
		says("#toast", "now holds until"))
	put(`{"key": "topic?id=shared", "action": "block", "for": "1h"}`)
	run(t, ctx, clickOn("#toast-undo"), says("#toast", `nothing was undone: override "shared" was set to block by "bob"`),
		says("#overrides .do-block", "topic?id=shared"))
	// The dialog was opened on the limit that no longer exists when it is sent.
	put(limited)
	run(t, ctx, says("#overrides .badge", "limit 50/s"), clickOn(`#overrides [data-act="edit"]`),
		until("document.querySelector('#dialog').open"), fill("#f-rate", "500"))
	put(`{"key": "topic?id=shared", "action": "block", "for": "1h"}`)
	run(t, ctx, clickOn("#dialog-save"), says("#e-form", `was set to block by "bob"`), clickOn("#dialog-cancel"),
		says("#overrides .do-block", "topic?id=shared"))
	// The page now shows the block, so the block can be undone.
	run(t, ctx, clickOn(`#overrides [data-act="undo"]`), says("#overrides .badge", "limit 50/s"))
}

// TestIncident_WorksForTwoOperators checks that two operators can work on one incident: anna at a desk and ben on a
// phone work with the same viral key. A change by one of them appears on the page of the other without a reload. Anna's
// undo does not remove ben's block, ben's own undo does and leaves anna's limit, and the audit has all changes under
// the right names.
func TestIncident_WorksForTwoOperators(t *testing.T) {
	t.Parallel()
	const prefix, token, row = "/ops", "a-token-of-the-test", "#hot-table tbody tr:nth-child(1)"
	page := ownPage(t, prefix, token)
	anna, ben := browser(t), browser(t)
	const closed = "!document.querySelector('#dialog').open"
	run(t, anna, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(page+prefix+"/"), says(row, "topic?id=42"))
	run(t, ben, phone(), chromedp.Navigate(strings.Replace(page, "anna:", "ben:", 1)+prefix+"/"),
		says(row, "topic?id=42"))
	run(t, anna, clickOn(row+" [data-act=limit]"), until("document.querySelector('#dialog').open"),
		fill("#f-rate", "5"), clickOn("#dialog-save"))
	secondWord(t, anna, closed)
	// The message stays while it has the focus.
	run(t, anna, says("#toast", "to limit 5/s"), until("(document.querySelector('#toast-undo').focus(), true)"))
	run(t, ben, says(row+" .badge", "override"), says("#events .override_put", "by anna"),
		tapOn(row+" [data-act=block]"), until("document.querySelector('#dialog').open"), tapOn("#dialog-save"))
	secondWord(t, ben, closed)
	run(t, ben, says("#toast", "to block"))
	run(t, anna, says("#events .override_put", "block · by ben"), clickOn("#toast-undo"),
		says("#toast", `was set to block by "ben"`), says(row+" .limit", "block"))
	for who, press := range map[context.Context]func(string) chromedp.Action[chromedp.Void]{anna: clickOn, ben: tapOn} {
		run(t, who, press("#views a[href$='/overrides']"), says("#overrides .do-block", "by ben"))
	}
	run(t, ben, tapOn("#overrides [data-act=undo]"), says("#toast", "Undone"))
	run(t, anna, says("#overrides .do-limit", "limit 5/s"), clickOn("#overrides [data-act=remove]"))
	run(t, ben, until("document.querySelectorAll('#overrides tbody button').length == 0"))
	run(t, anna, clickOn("#views a[href$='/audit']"), says("#audit tbody tr:nth-child(4)", "anna"),
		says("#audit tbody tr:nth-child(4)", "set: limit 5/s"),
		says("#audit tbody tr:nth-child(3)", "set: block (was limit 5/s"), says("#audit tbody tr:nth-child(3)", "ben"),
		says("#audit tbody tr:nth-child(2)", "ben"), says("#audit tbody tr:nth-child(1)", "anna"))
}

// TestPage_ComparesKeyOfAnswer checks that the page of a key reports a gateway that changes the key of a request,
// and offers nothing that could act on the other key.
func TestPage_ComparesKeyOfAnswer(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	const prefix, token = "/ops", "a-token-of-the-test"
	u, err := url.Parse(ownPage(t, prefix, token))
	if err != nil {
		t.Fatal(err)
	}
	to := &url.URL{Scheme: "http", Host: u.Host}
	gateway := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = u.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
		if q := r.Out.URL.Query(); q.Get("key") == "topic?id=a/b" {
			q.Set("key", "topic?id=a")
			r.Out.URL.RawQuery = q.Encode()
		}
	}})
	t.Cleanup(func() { gateway.CloseClientConnections(); gateway.Close() }) // the page's stream does not end by itself
	view := gateway.URL + prefix + "/key?key="
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(view+"topic%3Fid%3Da%2Fb"),
		says("#key-trouble", "The server was asked about topic?id=a"),
		until("document.querySelector('#key-body').hidden"), chromedp.Navigate(view+"topic%3Fid%3Da%252Fb"),
		says("#key-name", "topic?id=a%2Fb"), until("!document.querySelector('#key-body').hidden"),
		until("document.querySelector('#key-trouble').textContent == ''"))
}
