package middleware_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// pipes is a listener whose connections are in memory, so that synctest runs their clock.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// upload sends a request, and then parts of its body, one a second. It sends the status of the response, or 0 if there
// is none.
func (p pipes) upload(head string, first, part, parts int) (status chan int) {
	status = make(chan int, 1)
	client, server := net.Pipe()
	p <- server
	go func() {
		defer client.Close()
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			status <- 0
			return
		}
		status <- res.StatusCode
		_, _ = io.Copy(io.Discard, res.Body)
	}()
	go func() {
		_, _ = io.WriteString(client, head+"\r\n\r\n"+strings.Repeat("x", first))
		for range parts {
			time.Sleep(time.Second)
			if _, err := io.WriteString(client, strings.Repeat("x", part)); err != nil {
				return
			}
		}
	}()
	return status
}

func (p pipes) get() int {
	return <-p.upload("GET /topic?id=42 HTTP/1.1\r\nHost: a\r\nConnection: close", 0, 0, 0)
}

// runWithSlots serves a hot key with two slots to a test, below a listener's bound on bodies or without one.
func runWithSlots(t *testing.T, listener time.Duration, test func(p pipes)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, err := rules.Parse("r.yaml", []byte("rules: [{name: topic, match: {path: /topic}, params: [id], "+
			"hot: {rate: 1}, limit: {algorithm: in_flight, limit: 2}}]"))
		if err != nil {
			t.Fatal(err)
		}
		hot := new(hotset.Replica)
		hot.Replace("a", report.HotSet{Version: 1, Keys: []hottype.HotKey{
			{Key: "topic?id=42", Until: time.Now().Add(time.Hour)}}})
		layer := middleware.New(gate.New(gate.Config{Rules: set, Hot: hot}), middleware.Options{})
		bodies := httplimit.SlowBodies{Timeout: listener}
		srv := &http.Server{Handler: bodies.Protect(layer.Wrap(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				if n, err := io.Copy(io.Discard, r.Body); err != nil || n != max(0, r.ContentLength) {
					w.WriteHeader(http.StatusTeapot)
				}
			})))}
		p := make(pipes)
		go func() { _ = srv.Serve(p) }()
		test(p)
		_ = srv.Close()
		synctest.Wait()
	})
}

func postHead(length int) string {
	return fmt.Sprintf("POST /topic?id=42 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d", length)
}

// Whatever length a body claims, who drips it takes no slot from others before its beginning is in.
func TestSlots_AreNotTakenByBodiesThatDrip(t *testing.T) {
	for _, listener := range []time.Duration{0, 30 * time.Second} {
		for name, body := range map[string]string{"short": "Content-Length: 1000", "long": "Content-Length: 1000000",
			"of unknown length": "Transfer-Encoding: chunked\r\n\r\nfffff"} {
			t.Run(fmt.Sprint(listener, name), func(t *testing.T) {
				runWithSlots(t, listener, func(p pipes) {
					head := "POST /topic?id=42 HTTP/1.1\r\nHost: a\r\n" + body
					first, second := p.upload(head, 0, 1, 600), p.upload(head, 0, 1, 600)
					for range 8 {
						if status := p.get(); status != http.StatusOK {
							t.Errorf("beside two dripping bodies: %d", status)
						}
						time.Sleep(time.Second)
					}
					for _, status := range []chan int{first, second} {
						if s := <-status; s != http.StatusRequestTimeout {
							t.Errorf("a dripping body is answered %d", s)
						}
					}
				})
			})
		}
	}
}

// A body whose beginning came fast keeps its slot for some seconds if the rest drips.
func TestSlots_AreFreeWhenTheRestOfABodyDrips(t *testing.T) {
	for _, listener := range []time.Duration{0, 30 * time.Second} {
		t.Run(listener.String(), func(t *testing.T) {
			runWithSlots(t, listener, func(p pipes) {
				for range 2 {
					p.upload(postHead(1_000_000), 64<<10, 500, 600)
				}
				time.Sleep(time.Second)
				if status := p.get(); status != http.StatusTooManyRequests {
					t.Errorf("beside two bodies under way: %d", status)
				}
				time.Sleep(10 * time.Second)
				if status := p.get(); status != http.StatusOK {
					t.Errorf("after ten seconds of 500 bytes: %d", status)
				}
			})
		})
	}
}

// A slow but honest upload arrives whole: a short one slower than 16 KiB/s, a long one a little faster.
func TestSlots_AreKeptByUploadsThatProgress(t *testing.T) {
	for name, c := range map[string]struct{ length, first, part int }{
		"short": {4000, 0, 1000}, "long": {64<<10 + 40*20<<10, 64 << 10, 20 << 10}, "at once": {100, 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			runWithSlots(t, 30*time.Second, func(p pipes) {
				parts := 0
				if c.part > 0 {
					parts = (c.length - c.first) / c.part
				}
				if status := <-p.upload(postHead(c.length), c.first, c.part, parts); status != http.StatusOK {
					t.Errorf("%d", status)
				}
			})
		})
	}
}
