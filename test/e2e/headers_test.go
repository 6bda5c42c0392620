package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// longHeaders returns the bytes that a client writes on one connection: requests whose bodies never come, each with 60
// KB of cookies that HPACK encodes in 15 bytes, and a PING. The client accepts window bytes of each answer.
func longHeaders(streams, window uint32) []byte {
	var wire, block bytes.Buffer
	wire.WriteString(http2.ClientPreface)
	f, enc := http2.NewFramer(&wire, nil), hpack.NewEncoder(&block)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	for i := range streams {
		block.Reset()
		for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/x"}} {
			_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		for range 15 {
			_ = enc.WriteField(hpack.HeaderField{Name: "cookie", Value: strings.Repeat("a", 4000)})
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndHeaders: true})
	}
	_ = f.WritePing(false, [8]byte{1})
	return wire.Bytes()
}

// awaitPing reads until the server answers the PING, so that it has read all before it, or ends the connection.
func awaitPing(conn net.Conn) {
	f := http2.NewFramer(nil, conn)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			return
		}
	}
}

// The process takes no more memory than its listener states, and 64 MiB for the rest, for any headers that one client
// sends at once, and however long it leaves answers unread.
func TestListener_BoundsMemoryOfHeaders(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", "rules:\n  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 50}}\n")
	p := launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL,
		"--listen", addr, "--admin.listen", admin, "--state.dir", t.TempDir(), "--proxy.max_connections", "500",
		"--proxy.max_connections_client", "500")
	ready(t, admin)
	for _, load := range []struct{ conns, streams, window uint32 }{
		{150, 100, 0}, {450, 100, 65535}, {20, 250, 65535},
	} {
		wire := longHeaders(load.streams, load.window)
		var all sync.WaitGroup
		var conns []net.Conn
		for range load.conns {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			all.Go(func() { _, _ = conn.Write(wire) }) // the server may have ended it
			all.Go(func() { awaitPing(conn) })
		}
		all.Wait()
		t.Logf("%d connections of %d streams, window %d: %d MiB at most", load.conns, load.streams, load.window,
			p.PeakMemory()>>20)
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	_, text := get(t, "http://"+admin+"/metrics")
	_, line, _ := strings.Cut(text, `hotparam_listener_memory_bound_bytes{listener="proxy"} `)
	var bound float64
	if _, err := fmt.Sscan(line, &bound); err != nil {
		t.Fatal(err)
	}
	if most := int64(bound) + 64<<20; p.PeakMemory() > most {
		t.Errorf("the process held %d bytes, more than %d", p.PeakMemory(), most)
	}
	if strings.Contains(text, "go_gc_gomemlimit_bytes 9.223372036854776e+18") {
		t.Error("the collector has no limit")
	}
	if status, _ := get(t, "http://"+addr+"/other?id=1"); status != http.StatusOK {
		t.Errorf("another request: %d", status)
	}
}
