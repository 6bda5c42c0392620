package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// An event reaches the client while the answer is still being written.
func TestProxy_FlushesEventStream(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	_, at := serve(t,
		proxy.Config{Upstreams: map[string]*url.URL{"": upstream(t, "", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-seen:
				fmt.Fprint(w, "data: 2\n\n")
			case <-r.Context().Done():
			}
		})}})
	res, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for _, want := range []string{"data: 1", "", "data: 2", ""} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q %v, want %q", lines.Text(), lines.Err(), want)
		}
		if want == "data: 1" {
			close(seen)
		}
	}
}

func TestProxy_PassesUpgrade(t *testing.T) {
	t.Parallel()
	_, at := serve(t,
		proxy.Config{Upstreams: map[string]*url.URL{"": upstream(t, "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			line, _ := rw.ReadString('\n')
			_, _ = conn.Write([]byte(line))
		})}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := br.ReadString('\n'); line != "hello\n" {
		t.Errorf("%q %v", line, err)
	}
}
