package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

func TestDropHopByHop_LeavesOtherFields(t *testing.T) {
	t.Parallel()
	clients := httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "True-Client-IP")
	for name, c := range map[string]struct{ sent, want http.Header }{
		"nothing": {http.Header{"X-A": {"a"}}, http.Header{"X-A": {"a"}}},
		"a named one": {
			http.Header{"Connection": {"close, x-a"}, "X-A": {"a"}, "X-B": {"b"}}, http.Header{"X-B": {"b"}},
		},
		"on two lines": {
			http.Header{"Connection": {"close", " x-a ,, X-B"}, "X-A": {"a"}, "X-B": {"b"}}, http.Header{},
		},
		"the standard ones": {http.Header{"Keep-Alive": {"5"}, "Proxy-Connection": {"x"}, "Proxy-Authorization": {"x"},
			"Proxy-Authenticate": {"x"}, "Te": {"gzip"}, "Trailer": {"X"}, "Transfer-Encoding": {"x"},
			"Http2-Settings": {"AAM"}, "Connection": {"keep-alive"}}, http.Header{}},
		"what trusted proxies write": {
			http.Header{"Connection": {"X-Forwarded-For, True-Client-Ip, Forwarded, X-Real-IP"},
				"X-Forwarded-For": {"1"}, "True-Client-Ip": {"2"}, "Forwarded": {"3"}, "X-Real-Ip": {"4"}},
			http.Header{"X-Forwarded-For": {"1"}, "True-Client-Ip": {"2"}, "Forwarded": {"3"}, "X-Real-Ip": {"4"}}},
		"trailers": {
			http.Header{"Connection": {"TE"}, "Te": {"gzip;q=0.5, trailers"}}, http.Header{"Te": {"trailers"}},
		},
		"websocket": {http.Header{"Connection": {"keep-alive, upgrade"}, "Upgrade": {"WebSocket"}},
			http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}},
		"not asked for": {http.Header{"Connection": {"close"}, "Upgrade": {"websocket"}}, http.Header{}},
		"h2c": {http.Header{"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {"h2c"}, "Http2-Settings": {"AAM"}},
			http.Header{}},
		"one of two":    {http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket, h2c"}}, http.Header{}},
		"on two lines ": {http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket", "h2c"}}, http.Header{}},
	} {
		clients.DropHopByHop(c.sent)
		if diff := cmp.Diff(c.want, c.sent); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// "CONNECT h/topic" reaches handlers as /topic, and so it is judged.
func TestTarget_OfConnectIsPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, sent, path, want string }{
		{"GET", "/%61?x", "/a", "/%61?x"}, {"CONNECT", "h:1/topic?id=1", "/topic", "/topic?id=1"},
	} {
		r := httptest.NewRequest(c.method, "http://h/", nil)
		r.RequestURI, r.URL.Path, r.URL.RawQuery = c.sent, c.path, "id=1"
		if got := httplimit.Target(r); got != c.want {
			t.Errorf("%s %s: %s", c.method, c.sent, got)
		}
	}
}

// A request outlives its client for a time, and not itself.
func TestOutlive_EndsAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, leave := context.WithCancel(t.Context())
		ctx, end := httplimit.Outlive(client, time.Minute)
		defer end()
		if httplimit.OutlivedClient(ctx) != client || httplimit.OutlivedClient(client) != nil {
			t.Error("the client is not known")
		}
		leave()
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("ended before its time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("has no end")
		}
		ctx, end = httplimit.Outlive(t.Context(), time.Minute)
		if end(); ctx.Err() == nil {
			t.Error("not ended by its end")
		}
	})
}
