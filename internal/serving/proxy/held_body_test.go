package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	decide "github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// The proxy takes the slot of a key when the beginning of a body is in. The server asks for the body when it is read.
func TestProxy_ReadsABodyBeforeItTakesASlot(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("r.yaml", []byte("rules: [{name: topic, match: {path: /topic}, params: [], "+
		"hot: {rate: 1}, limit: {algorithm: in_flight, limit: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	hot := new(hotset.Replica)
	hot.Replace("test", report.HotSet{Version: 1, Keys: []hottype.HotKey{
		{Key: "topic", Until: time.Now().Add(time.Hour)}}})
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	p, err := proxy.New(decide.New(decide.Config{Rules: set, Hot: hot}),
		proxy.Config{Upstreams: map[string]*url.URL{"": upstream(t, "", echo)}})
	if err != nil {
		t.Fatal(err)
	}
	bodies := httplimit.SlowBodies{Timeout: time.Minute}
	front := httptest.NewServer(bodies.Protect(p))
	t.Cleanup(front.Close)
	conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	fmt.Fprint(conn, "POST /topic HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
		if line, err := in.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if status, _ := get(t, front.URL+"/topic", nil); status != http.StatusOK {
		t.Errorf("while a body is awaited: %d", status)
	}
	fmt.Fprint(conn, "body")
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || string(b) != "body" {
		t.Errorf("%d %q, %v", res.StatusCode, b, err)
	}
}
