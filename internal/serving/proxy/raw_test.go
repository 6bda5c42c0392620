package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawUpstream is a TCP server that records the heads of requests byte by byte.
type rawUpstream struct {
	*url.URL
	mu    sync.Mutex
	heads []string
}

func newRawUpstream(t *testing.T) *rawUpstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	u := &rawUpstream{URL: &url.URL{Scheme: "http", Host: ln.Addr().String()}}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go u.serve(conn)
		}
	}()
	return u
}

// serve answers one request. An answer ends the connection, so that bodies need not be read.
func (u *rawUpstream) serve(conn net.Conn) {
	defer conn.Close()
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		var b [1]byte
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			return
		}
		head = append(head, b[0])
	}
	u.mu.Lock()
	u.heads = append(u.heads, string(head))
	u.mu.Unlock()
	fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: X-A\r\nConnection: close\r\n\r\n")
}

// fataler is a test, of this kind or another.
type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func (u *rawUpstream) takeRequests(t fataler) []request {
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []request
	for _, head := range u.heads {
		line, rest, _ := strings.Cut(head, "\r\n")
		method, line, _ := strings.Cut(line, " ")
		target, found := strings.CutSuffix(line, " HTTP/1.1")
		if !found {
			t.Fatalf("the upstream got %q", head)
		}
		r := request{method, target, "", http.Header{}}
		for field := range strings.SplitSeq(strings.TrimSuffix(rest, "\r\n\r\n"), "\r\n") {
			name, value, _ := strings.Cut(field, ": ")
			if name == "Host" {
				r.host = value
			} else {
				r.header.Add(name, value)
			}
		}
		list = append(list, r)
	}
	u.heads = nil
	return list
}

// sendHTTP1 sends a request byte for byte and waits for the head of the answer.
func sendHTTP1(t fataler, at, method, target, host string, fields []field) {
	conn := dial(t, at)
	defer conn.Close()
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, host)
	for _, f := range fields {
		b = fmt.Appendf(b, "%s: %s\r\n", f.name, f.value)
	}
	if _, err := conn.Write(append(b, "\r\n"...)); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
}

// sendHTTP2 does the same by HTTP/2 frames.
func sendHTTP2(t fataler, at, method, target, host string, fields []field) {
	conn := dial(t, at)
	defer conn.Close()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	add := func(name, value string) { _ = enc.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	add(":method", method)
	add(":scheme", "http")
	add(":authority", host)
	add(":path", target)
	for _, f := range fields {
		add(strings.ToLower(f.name), f.value)
	}
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&out, conn)
	_ = fr.WriteSettings()
	_ = fr.WriteHeaders(
		http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true},
	)
	if _, err := conn.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			t.Fatalf("%s %q %q %v: %v", method, target, host, fields, err)
		}
		switch f := f.(type) {
		case *http2.HeadersFrame, *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = fr.WriteSettingsAck()
				_, _ = conn.Write(out.Bytes()[out.Len():])
			}
		}
	}
}

func dial(t fataler, at string) net.Conn {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}
