package listener

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a listener until the end of the test. The result of stop is Run's.
func start(t *testing.T, change func(*Config)) (s *Server, stop func() error) {
	t.Helper()
	cfg := Config{
		Name: "proxy", Addr: "127.0.0.1:0", Grace: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
		HeaderTimeout: 10 * time.Second, BodyTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%s %d %v", r.Proto, n, err)
		}),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var once error
	done := false
	stop = func() error {
		if !done {
			cancel()
			once, done = <-ended, true
		}
		return once
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return s, stop
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	network, addr := "tcp", s.Addr()
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	c, err := new(net.Dialer).DialContext(t.Context(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// exchange writes a request on a connection and returns what readAnswer returns.
func exchange(c net.Conn, text string) string {
	if _, err := io.WriteString(c, text); err != nil {
		return ""
	}
	return readAnswer(c)
}

// readAnswer returns the status and the body of the next response on a connection, or "" if there is none.
func readAnswer(c net.Conn) string {
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(b))
}

const plainGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(10 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// isClosed reports whether the server has closed a connection.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := io.Copy(io.Discard, c) // earlier data of the server does not count
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestListener_ServesAllProtocols(t *testing.T) {
	t.Parallel()
	plain, _ := start(t, nil)
	secure, _ := start(t, func(c *Config) { c.TLS = newFiles(t).write(t, "one", false) })
	h1, h2, h2c := new(http.Protocols), new(http.Protocols), new(http.Protocols)
	h1.SetHTTP1(true)
	h2.SetHTTP2(true)
	h2c.SetUnencryptedHTTP2(true)
	for _, c := range []struct {
		url  string
		p    *http.Protocols
		want string
	}{
		{"http://" + plain.Addr(), h1, "HTTP/1.1 4 <nil>"}, {"http://" + plain.Addr(), h2c, "HTTP/2.0 4 <nil>"},
		{"https://" + secure.Addr(), h1, "HTTP/1.1 4 <nil>"}, {"https://" + secure.Addr(), h2, "HTTP/2.0 4 <nil>"},
	} {
		tr := &http.Transport{Protocols: c.p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		for range 3 { // on one connection
			res, err := (&http.Client{Transport: tr}).Post(c.url, "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if string(b) != c.want {
				t.Errorf("%s: %s, want %s", c.url, b, c.want)
			}
		}
		tr.CloseIdleConnections()
	}
}

func TestListener_RejectsPrefaceAsRequest(t *testing.T) {
	t.Parallel()
	served := 0
	s, _ := start(t, func(c *Config) {
		c.TLS = newFiles(t).write(t, "one", false)
		c.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
	})
	c := tls.Client(dial(t, s), &tls.Config{InsecureSkipVerify: true})
	exchange(c, plainGet)
	if got := exchange(c, preface); !strings.HasPrefix(got, "505 ") || served != 1 || s.Stats().Prefaces != 1 {
		t.Errorf("%q, served %d, %+v", got, served, s.Stats())
	}
	if !isClosed(c) {
		t.Error("the connection goes on")
	}
}

// Idle connections make room for new ones, longest idle first; those with a request
// under way do not.
func TestConns_EvictLongestIdle(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan bool), make(chan bool)
	s, _ := start(t, func(c *Config) {
		c.MaxConnections = 3
		c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/busy" {
				begun <- true
				<-finish
			}
		})
	})
	t.Cleanup(func() { close(finish) })
	busy := func() net.Conn {
		c := dial(t, s)
		if _, err := io.WriteString(c, "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-begun:
		case <-time.After(time.Minute):
			t.Fatal("the request did not begin")
		}
		return c
	}
	first := busy()
	silent := dial(t, s)
	await(t, "the silent connection", func() bool { return s.Stats().Open == 2 })
	asked := dial(t, s)
	if got := exchange(asked, plainGet); !strings.HasPrefix(got, "200") {
		t.Fatalf("%q", got)
	}
	// The answer is here before the server has noted that the connection waits again.
	await(t, "the connection that asked is idle", func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return s.conns.idle.Len() == 2
	})
	second := busy() // in the place of the silent one
	if !isClosed(silent) {
		t.Error("the longest idle connection is still there")
	}
	third := busy() // in the place of the connection that asked
	if !isClosed(asked) {
		t.Error("the other idle connection is still there")
	}
	if !isClosed(dial(t, s)) {
		t.Error("a fourth connection beside three requests")
	}
	if st := s.Stats(); st.Open != 3 || st.Evicted != 2 || st.Rejected != 1 {
		t.Errorf("%+v", st)
	}
	for range 3 {
		finish <- true
	}
	for _, c := range []net.Conn{first, second, third} {
		if got := readAnswer(c); !strings.HasPrefix(got, "200") {
			t.Errorf("a request under way: %q", got)
		}
	}
}

func TestListener_CutsOffSlowClients(t *testing.T) {
	t.Parallel()
	s, _ := start(t, func(c *Config) { c.HeaderTimeout, c.BodyTimeout = time.Second, time.Second })
	header := dial(t, s)
	if _, err := io.WriteString(header, "GET / HTTP/1.1\r\nHost: x\r\nX-"); err != nil {
		t.Fatal(err)
	}
	if begin := time.Now(); !isClosed(header) || time.Since(begin) > 20*time.Second {
		t.Errorf("a slow header held its connection for %v", time.Since(begin))
	}
	body := dial(t, s)
	if got := exchange(body, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"); !strings.Contains(got,
		"2 httplimit: the request body came too slowly") {
		t.Errorf("a body that stands still: %q", got)
	}
	// One that drips a byte at a time does not live longer by it.
	drip := dial(t, s)
	begin := time.Now()
	if _, err := io.WriteString(drip, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan string)
	go func() { answer <- readAnswer(drip) }()
	for done := false; !done; {
		select {
		case got := <-answer:
			done = true
			if !strings.Contains(got, "too slowly") {
				t.Errorf("a body that drips: %q", got)
			}
		case <-time.After(20 * time.Millisecond):
			_, _ = io.WriteString(drip, "a") // fails once the server has had enough
		}
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("a body that drips: %v", took)
	}
	if n := s.Stats().Slow; n != 2 {
		t.Errorf("%d slow bodies counted", n)
	}
	// What progresses takes as long as it needs, several times the patience here.
	var upload net.Conn
	for steady := false; !steady; {
		upload = dial(t, s)
		if steady = uploadSlowly(upload); !steady {
			t.Log("a busy machine stood still between two parts of the upload; once more")
		}
	}
	if got := readAnswer(upload); got != "200 HTTP/1.1 60000 <nil>" {
		t.Errorf("a long upload: %q", got)
	}
	if got := exchange(upload, plainGet); !strings.HasPrefix(got, "200") {
		t.Errorf("the next request on its connection: %q", got)
	}
}

// uploadSlowly sends a body in 60 parts over three seconds. It returns false if two parts were half a second apart or
// more, so that the upload did not progress all the time.
func uploadSlowly(c net.Conn) bool {
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"); err != nil {
		return false
	}
	for last, i := time.Now(), 0; i < 60; i++ {
		time.Sleep(50 * time.Millisecond)
		_, err := io.WriteString(c, strings.Repeat("a", 1000))
		now := time.Now()
		if now.Sub(last) >= 500*time.Millisecond {
			return false
		}
		if last = now; err != nil {
			return true // the answer says why
		}
	}
	return true
}

// A body that no handler reads is not waited for either.
func TestListener_AwaitsNoUnreadBody(t *testing.T) {
	t.Parallel()
	s, _ := start(t, func(c *Config) {
		c.BodyTimeout = 300 * time.Millisecond
		c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
		})
	})
	c := dial(t, s)
	_ = exchange(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab")
	if !isClosed(c) {
		t.Error("the connection goes on")
	}
}

func TestRun_StopsDespiteStuckUpload(t *testing.T) {
	t.Parallel()
	reading := make(chan bool, 1)
	s, stop := start(t, func(c *Config) {
		c.Grace, c.BodyTimeout = 300*time.Millisecond, time.Hour
		c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reading <- true
			_, _ = io.Copy(io.Discard, r.Body)
		})
	})
	c := dial(t, s)
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"); err != nil {
		t.Fatal(err)
	}
	<-reading
	begin := time.Now()
	if err := stop(); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("stopped after %v: %v", time.Since(begin), err)
	}
}

func TestListen_ServesUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	s, stop := start(t, func(c *Config) { c.Addr = "unix:" + path })
	if got := exchange(dial(t, s), plainGet); !strings.HasPrefix(got, "200") {
		t.Errorf("%q", got)
	}
	if _, err := Listen(t.Context(), s.cfg); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("a second one: %v", err)
	}
	// A process that was killed leaves its socket behind.
	s.conns.Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again, _ := start(t, func(c *Config) { c.Addr = "unix:" + path })
	if got := exchange(dial(t, again), plainGet); !strings.HasPrefix(got, "200") {
		t.Errorf("after a restart: %q", got)
	}
}
