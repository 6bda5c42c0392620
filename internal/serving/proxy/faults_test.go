package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// A body that the client does not send whole is the client's fault: 400, no warning, no failure of the upstream.
func TestProxy_BlamesClientForBrokenBody(t *testing.T) {
	t.Parallel()
	const post = "POST / HTTP/1.1\r\nHost: x\r\n"
	for name, text := range map[string]string{
		"malformed chunk":   post + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\nzz\r\n",
		"chunk without end": post + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcdefgh\r\n0\r\n\r\n",
		"trailers too large": post + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nX: " +
			strings.Repeat("x", 70<<10) + "\r\n\r\n",
		"malformed trailer": post + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nX y\r\n\r\n",
		"too short":         post + "Content-Length: 10\r\n\r\nabcd",
		"chunk cut short":   post + "Transfer-Encoding: chunked\r\n\r\n8\r\nabcd",
	} {
		var log bytes.Buffer
		reads := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
		p, err := proxy.New(gate{}, proxy.Config{
			Upstreams: map[string]*url.URL{"": upstream(t, "", reads)}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(p)
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite() // the server may have answered and closed it
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		conn.Close()
		srv.Close() // waits for the handler
		if res.StatusCode != http.StatusBadRequest || !res.Close {
			t.Errorf("%s: %s, closes: %t", name, res.Status, res.Close)
		}
		if s := p.Stats().Upstreams[""]; s.Failures != 0 || s.Abandoned != 1 || log.Len() > 0 {
			t.Errorf("%s: %+v %s", name, s, &log)
		}
	}
}

// An upstream may answer while it reads the body: it gets the whole of it.
func TestProxy_AnswersWhileBodyIsSent(t *testing.T) {
	t.Parallel()
	_, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{
		"": upstream(t, "", func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.EnableFullDuplex()
			fmt.Fprint(w, "begun ")
			_ = control.Flush()
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		})}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", strings.Repeat("a", 50000))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, strings.Repeat("b", 50000))
	if body, err := io.ReadAll(res.Body); string(body) != "begun 100000 <nil>" || err != nil {
		t.Errorf("%s, %v", body, err)
	}
}
