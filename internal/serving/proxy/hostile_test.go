package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
)

// A body far beyond max_body passes through the proxy and its cache without taking memory.
func TestHugeBodyTakesNoMemory(t *testing.T) {
	size := int64(64 << 20)
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "1" {
		size = 1 << 30
	}
	chunk := make([]byte, 1<<20)
	var most atomic.Uint64
	up := upstream(t, "", func(w http.ResponseWriter, _ *http.Request) {
		for sent := int64(0); sent < size; sent += int64(len(chunk)) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			if sent%(8<<20) == 0 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), m.HeapAlloc))
			}
		}
	})
	_, at := serveCached(t, up)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/topic?id=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
		t.Errorf("%d bytes of %d, %v", n, size, err)
	}
	if most.Load() > 48<<20 {
		t.Errorf("%d bytes on the heap", most.Load())
	}
}

// An upstream that never ends its header is a failure, and not an answer that grows in memory.
func TestHeaderWithoutEnd(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w := bufio.NewWriter(conn)
			for _, err = w.WriteString("HTTP/1.1 200 OK\r\n"); err == nil; {
				_, err = w.WriteString("X-Field: " + "0123456789abcdef0123456789abcdef" + "\r\n")
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	p, at := serveCached(t, &url.URL{Scheme: "http", Host: l.Addr().String()})
	for range 2 {
		if status, body := get(t, at+"/topic?id=1", nil); status != http.StatusBadGateway {
			t.Errorf("%d %s", status, body)
		}
	}
	if s := p.Cache().Stats(); s.Entries != 1 || s.Bytes > 1<<20 { // a marker that nothing is kept
		t.Errorf("%+v", s)
	}
}

// What an upstream says in more lines and greater numbers than anybody reads is one error less:
// the answer passes, and is not kept.
func TestHostileCacheControl(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	up := upstream(t, "", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		for range 1000 {
			w.Header().Add("Cache-Control", `max-age=99999999999999999999, private="`)
			w.Header().Add("Vary", "Accept-Encoding,,,,,")
		}
	})
	_, at := serveCached(t, up)
	for range 3 {
		if status, _ := get(t, at+"/topic?id=1", nil); status != http.StatusOK {
			t.Errorf("%d", status)
		}
	}
	if asked.Load() != 3 {
		t.Errorf("asked %d times: private answers were kept", asked.Load())
	}
}
