package notify

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPostBatch_HidesSecretsThatAReceiverRepeats states that the path of a webhook is in no error, state or log line
// for any response: the request itself, the request within parts of a response, or an unreadable response.
func TestPostBatch_HidesSecretsThatAReceiverRepeats(t *testing.T) {
	t.Parallel()
	const secret = "T0KEN/B0KEN"
	answers := map[string]func(request string) string{
		"all of it":  func(request string) string { return request },
		"status":     func(string) string { return "HTTP/1.1 5" + secret + " no\r\n\r\n" },
		"field":      func(string) string { return "HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n" },
		"length":     func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n" },
		"location":   func(string) string { return "HTTP/1.1 307 no\r\nLocation: :" + secret + "\r\n\r\n" },
		"encoding":   func(string) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n" },
		"escaped":    func(string) string { return url.QueryEscape(secret) },
		"nothing":    func(string) string { return "" },
		"retry":      func(string) string { return "HTTP/1.1 503 " + secret + "\r\nRetry-After: " + secret + "\r\n\r\n" },
		"a half one": func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + secret[:3] },
	}
	for name, answer := range answers {
		for scheme := range map[string]bool{"http": true, "https": true} {
			addr := echoServer(t, answer)
			var log lockedBuffer
			n, err := New(Config{Webhooks: []Webhook{{Name: "ops", URL: scheme + "://" + addr + "/" + secret + "?t=" + secret,
				Timeout: time.Minute}}, Log: slog.New(slog.NewTextHandler(&log, nil))}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			result := n.Test(t.Context(), "", "ann", time.Now())[0]
			said := fmt.Sprintf("%v %+v %s", result.Err, n.Stats(), &log)
			if strings.Contains(said, "T0KEN") || strings.Contains(said, "B0KEN") {
				t.Errorf("%s by %s: %s", name, scheme, said)
			}
			if result.Err == nil && name != "a half one" {
				t.Errorf("%s by %s was taken for an answer", name, scheme)
			}
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// echoServer sends one response to each connection, made from the request.
func echoServer(t *testing.T, answer func(request string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				buf := make([]byte, 4096)
				n, _ := conn.Read(buf) // the response may contain the request
				_, _ = conn.Write([]byte(answer(string(buf[:n]))))
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return l.Addr().String()
}
