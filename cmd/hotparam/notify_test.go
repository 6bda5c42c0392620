package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestNotify_TestsAndListsWebhooks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer :=
			`{"webhooks":[{"name":"ops","format":"slack","events":["hot"],"sent":3,"failed":1,"dropped":1,"queued":4}]}`
		if r.Method == http.MethodPost && r.URL.Query().Get("author") == "ann" {
			answer =
				`{"results":[{"name":"ops","ok":true,"took_ms":2},{"name":"x","ok":false,"error":"answered 500\u001b","took_ms":1}]}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	var out bytes.Buffer
	k := &kong.Kong{Stdout: &out}
	ls := notifyLsCmd{}
	ls.Admin, ls.Timeout, ls.Output = server.URL, 30e9, "text"
	if err := ls.Run(t.Context(), k); err != nil ||
		!strings.Contains(out.String(), "ops      slack   hot     3     2     4       -") {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	test := notifyTestCmd{Author: "ann"}
	test.Admin, test.Timeout, test.Output = server.URL, 30e9, "text"
	err := test.Run(t.Context(), k)
	if err == nil || !strings.Contains(out.String(), "answered 500\ufffd") || !strings.Contains(out.String(), "ok") {
		t.Errorf("%v\n%s", err, &out)
	}
}
