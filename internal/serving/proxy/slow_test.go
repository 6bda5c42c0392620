package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// An upload that stands still is the client's fault, and not the upstream's.
func TestProxy_BlamesClientForSlowUpload(t *testing.T) {
	t.Parallel()
	p, err := proxy.New(gate{},
		proxy.Config{Upstreams: map[string]*url.URL{
			"": upstream(t, "", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })}})
	if err != nil {
		t.Fatal(err)
	}
	bodies := httplimit.SlowBodies{Timeout: 200 * time.Millisecond}
	front := httptest.NewServer(bodies.Protect(p))
	t.Cleanup(front.Close)
	conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab")
	answer, err := io.ReadAll(conn) // until the connection is closed
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%s, %v", answer, err)
	}
	if s := p.Stats().Upstreams[""]; s.Failures != 0 || s.Abandoned != 1 || bodies.Cut() != 1 {
		t.Errorf("%+v, %d cut", s, bodies.Cut())
	}
}
