package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// abuses are the ways in which hostile clients and failing gateways use a connection. Each function gets a connection,
// and the fields of an HTTP/2 request that the listener takes. It ends when the connection is closed.
var abuses = []struct {
	name  string
	times int // connections, one after the other
	do    func(conn net.Conn, fields []hpack.HeaderField) error
}{
	{"rapid reset", 5, func(conn net.Conn, fields []hpack.HeaderField) error {
		h := startHTTP2(conn)
		for range 5000 {
			id := h.request(fields)
			if err := h.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
				return err
			}
		}
		return nil
	}},
	{"requests without an end", 5, func(conn net.Conn, fields []hpack.HeaderField) error {
		h := startHTTP2(conn)
		for range 2000 {
			h.request(fields)
		}
		return h.WritePing(false, [8]byte{})
	}},
	{"continuation frames", 5, func(conn net.Conn, _ []hpack.HeaderField) error {
		h := startHTTP2(conn)
		err := h.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
		for i := 0; i < 2000 && err == nil; i++ {
			err = h.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 16<<10))
		}
		return err
	}},
	{"settings without an end", 5, func(conn net.Conn, _ []hpack.HeaderField) error {
		h := startHTTP2(conn)
		for range 5000 {
			if err := h.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}); err != nil {
				return err
			}
		}
		return nil
	}},
	{"a header of 64 MiB", 5, func(conn net.Conn, _ []hpack.HeaderField) error {
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nX: ")
		line := strings.Repeat("x", 64<<10)
		for i := 0; i < 1024 && err == nil; i++ {
			_, err = io.WriteString(conn, line)
		}
		return err
	}},
	{"gone in mid-call", 500, func(conn net.Conn, _ []hpack.HeaderField) error {
		_, err := io.WriteString(conn, "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"uri\":")
		return err
	}},
	{"gone in mid-call, HTTP/2", 500, func(conn net.Conn, fields []hpack.HeaderField) error {
		startHTTP2(conn).request(fields)
		return nil
	}},
}

// http2Client writes frames.
type http2Client struct {
	*http2.Framer
	next uint32
	buf  bytes.Buffer
	enc  *hpack.Encoder
}

func startHTTP2(conn net.Conn) *http2Client {
	_, _ = io.WriteString(conn, http2.ClientPreface) // a closed connection shows with the frames
	h := &http2Client{Framer: http2.NewFramer(conn, conn), next: 1}
	h.enc = hpack.NewEncoder(&h.buf)
	_ = h.WriteSettings()
	go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
	return h
}

// request begins a request whose body never comes.
func (h *http2Client) request(fields []hpack.HeaderField) uint32 {
	id := h.next
	h.next += 2
	h.buf.Reset()
	for _, f := range fields {
		_ = h.enc.WriteField(f) // to memory
	}
	_ = h.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: h.buf.Bytes(), EndHeaders: true})
	return id
}

// Clients can use only bounded memory by their connections, and other callers get their answers.
func TestServe_BoundsAbusedConnections(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "8GiB") // no ballast: memory that the collector has not freed yet does not count
	redis := redistest.Start(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "page")
	}))
	t.Cleanup(upstream.Close)
	proxy, decide, grpc, admin := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	p := launch(t, "limiter-sidecar", "--redis.addr", redis.Addr(), "--config",
		write(t, "hotparam.yaml", pipelineRules),
		"--proxy.listen", proxy, "--proxy.upstream", upstream.URL, "--decide.listen", decide, "--envoy.listen", grpc,
		"--admin.listen", admin)
	ready(t, admin)
	call := func(path, kind string) []hpack.HeaderField {
		return []hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: path},
			{Name: ":authority", Value: "a"}, {Name: "content-type", Value: kind}, {Name: "te", Value: "trailers"},
		}
	}
	listeners := []struct {
		name, addr string
		fields     []hpack.HeaderField
	}{
		{"proxy", proxy, call("/topic?id=1", "text/plain")},
		{"decide", decide, call("/v1/decide", "application/json")},
		{"envoy", grpc, call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "application/grpc")},
	}
	const most = 96 << 20 // the growth that a process may have
	before := p.Memory()
	for _, l := range listeners {
		for _, a := range abuses {
			t.Run(l.name+", "+a.name, func(t *testing.T) {
				for range a.times {
					conn, err := net.DialTimeout("tcp", l.addr, 10*time.Second)
					if err != nil {
						t.Fatal(err)
					}
					_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
					_ = a.do(conn, l.fields) // how far it comes does not matter
					_ = conn.Close()
				}
				began := time.Now()
				for i := range 20 {
					if status, body := get(t, fmt.Sprintf("http://%s/other?id=%d", proxy, i)); status != http.StatusOK {
						t.Fatalf("another caller: %d %s", status, body)
					}
				}
				t.Logf("20 other callers were answered in %v, memory %d MiB", time.Since(began), p.Memory()>>20)
			})
		}
	}
	if grown := p.Memory() - before; grown > most {
		t.Errorf("the process has grown by %d MiB, more than %d", grown>>20, most>>20)
	}
}
