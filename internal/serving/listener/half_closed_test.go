package listener

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// watchedListener signals when the server begins to wait for the hang-up of a client.
type watchedListener struct {
	net.Listener
	waiting chan struct{}
}

func (l watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{c, l.waiting}, nil
}

type watchedConn struct {
	net.Conn
	waiting chan struct{}
}

func (c *watchedConn) SyscallConn() (syscall.RawConn, error) {
	c.waiting <- struct{}{}
	return c.Conn.(syscall.Conn).SyscallConn()
}

// startWatched starts a listener whose waits for hang-ups show in the channel.
func startWatched(t *testing.T, handler http.HandlerFunc, change func(*Config)) (*Server, chan struct{}) {
	t.Helper()
	waiting := make(chan struct{}, 100)
	s, _ := start(t, func(cfg *Config) {
		cfg.Handler = handler
		cfg.wrap = func(ln net.Listener) net.Listener { return watchedListener{ln, waiting} }
		if change != nil {
			change(cfg)
		}
	})
	return s, waiting
}

// ways are a connection to a listener in each way that it has.
var ways = map[string]func(t *testing.T, cfg *Config) func(net.Conn) net.Conn{
	"TCP": func(*testing.T, *Config) func(net.Conn) net.Conn { return func(c net.Conn) net.Conn { return c } },
	"a socket": func(t *testing.T, cfg *Config) func(net.Conn) net.Conn {
		cfg.Addr = "unix:" + filepath.Join(t.TempDir(), "s")
		return func(c net.Conn) net.Conn { return c }
	},
	"TLS": func(t *testing.T, cfg *Config) func(net.Conn) net.Conn {
		cfg.TLS = newFiles(t).write(t, "one", false)
		return func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{InsecureSkipVerify: true}) }
	},
}

// closeWrite closes the client's side of a connection.
func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// A client that closes its side after a request gets its response, also if it has sent more than one.
func TestHalfClosedClient_GetsItsAnswer(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		var waiting chan struct{}
		var client func(net.Conn) net.Conn
		s, waiting := startWatched(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				select {
				case <-waiting:
				case <-r.Context().Done():
					panic(http.ErrAbortHandler)
				}
			}
			fmt.Fprint(w, r.URL.Path, r.Context().Err())
		}, func(cfg *Config) { client = way(t, cfg) })
		c := client(dial(t, s))
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, "GET /first HTTP/1.1\r\nHost: x\r\n\r\n"+plainGet); err != nil {
			t.Fatal(err)
		}
		closeWrite(t, c)
		r := bufio.NewReader(c)
		for _, want := range []string{"/first<nil>", "/<nil>"} {
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := io.ReadAll(res.Body)
			if string(got) != want || err != nil {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
			_ = res.Body.Close()
		}
		if _, err := r.ReadByte(); err == nil {
			t.Errorf("%s: the connection goes on", name)
		}
	}
}

// A client that has closed both sides is gone when something is written to it, at once on a socket.
func TestClosedClient_IsGone(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		gone := make(chan struct{})
		var waiting chan struct{}
		var client func(net.Conn) net.Conn
		s, waiting := startWatched(t, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			select {
			case <-waiting:
			case <-r.Context().Done():
			}
			if name != "a socket" {
				fmt.Fprint(w, "more")
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}, func(cfg *Config) { client = way(t, cfg) })
		c := client(dial(t, s))
		if _, err := io.WriteString(c, plainGet); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the request goes on", name)
		}
	}
}

// A client that has closed its side is gone when its answer has begun and is silent for some time: nothing would show
// whether it still reads.
func TestHalfClosedClient_OfSilentStreamIsGone(t *testing.T) {
	t.Parallel()
	gone := make(chan time.Duration, 1)
	more := make(chan struct{})
	s, waiting := startWatched(t, func(w http.ResponseWriter, r *http.Request) {
		flush := func(text string) {
			fmt.Fprint(w, text)
			_ = http.NewResponseController(w).Flush()
		}
		flush("first\n")
		<-more
		flush("other\n")
		last := time.Now()
		<-r.Context().Done()
		gone <- time.Since(last)
	}, nil)
	c := dial(t, s)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, plainGet); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body := bufio.NewReader(res.Body)
	closeWrite(t, c)
	<-waiting
	close(more)
	for _, want := range []string{"first\n", "other\n"} {
		if got, err := body.ReadString('\n'); got != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if after := <-gone; after < closedFor {
		t.Errorf("gone after %v of silence, want %v", after, closedFor)
	}
}
