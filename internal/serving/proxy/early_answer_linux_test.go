package proxy_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// An upstream that answers and closes the connection without having read the body is not cut short.
func TestProxy_PassesAnswerBeforeBody(t *testing.T) {
	t.Parallel()
	answer := strings.Repeat("0123456789abcdef", 4<<10) // 64 KiB
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() { // as gunicorn's workers do
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					fmt.Fprintf(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
						len(answer), answer)
					// Without this wait the kernel takes back, with the reset, the bytes that have not left it.
					awaitSent(conn)
				}
			}()
		}
	}()
	p, err := proxy.New(gate{}, proxy.Config{Upstreams: map[string]*url.URL{
		"": {Scheme: "http", Host: ln.Addr().String()}}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	broken := 0
	for i := range 300 {
		body := strings.Repeat("x", 1000<<(i%10)) // 1 KB to 512 KB
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		go fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			broken++
			t.Logf("%d bytes: %v", len(body), err)
			continue
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || string(got) != answer {
			broken++
			t.Logf("%d bytes: %s, %d bytes, %v", len(body), res.Status, len(got), err)
		}
		conn.Close()
	}
	if s := p.Stats().Upstreams[""]; broken > 0 || s.Failures > 0 {
		t.Errorf("%d of 300 broken, %+v", broken, s)
	}
}

// awaitSent waits until the other end has all that was written to a connection.
func awaitSent(conn net.Conn) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	for unsent := 1; err == nil && unsent > 0; time.Sleep(100 * time.Microsecond) {
		ctlErr := raw.Control(func(fd uintptr) { unsent, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		err = cmp.Or(err, ctlErr)
	}
}
