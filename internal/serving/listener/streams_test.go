package listener

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"
)

// pipes is a listener of connections without a network, whose waiting synctest understands.
type pipes struct {
	net.Listener
	next chan net.Conn
	once sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.next; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.next) })
	return p.Listener.Close()
}

// startPiped runs a listener whose client is returned.
func startPiped(t *testing.T, change func(*Config)) (s *Server, c *h2) {
	t.Helper()
	p := &pipes{next: make(chan net.Conn)}
	s, _ = start(t, func(c *Config) {
		change(c)
		c.wrap = func(ln net.Listener) net.Listener { p.Listener = ln; return p }
	})
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close() })
	p.next <- far
	return s, newH2(near)
}

// h2 is a client of HTTP/2 that speaks in frames.
type h2 struct {
	net.Conn
	*http2.Framer
	buf  bytes.Buffer
	enc  *hpack.Encoder
	next uint32
}

func newH2(conn net.Conn) *h2 {
	c := &h2{Conn: conn, Framer: http2.NewFramer(conn, conn), next: 1}
	c.enc = hpack.NewEncoder(&c.buf)
	return c
}

// greet sends the preface. Answers may have window bytes until the client grants more.
func (c *h2) greet(window uint32) {
	_, _ = io.WriteString(c.Conn, http2.ClientPreface)
	_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
}

// ask begins a request with a number of cookies of 4,000 bytes each, and returns its stream.
func (c *h2) ask(path string, cookies int) uint32 {
	c.buf.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", path}} {
		_ = c.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	for range cookies {
		_ = c.enc.WriteField(hpack.HeaderField{Name: "cookie", Value: strings.Repeat("a", 4000)})
	}
	id := c.next
	c.next += 2
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.buf.Bytes(), EndHeaders: true,
		EndStream: true})
	return id
}

// readResets reads the server's frames and reports the streams that it resets.
func (c *h2) readResets(reset chan<- uint32) {
	for {
		f, err := c.ReadFrame()
		if err != nil {
			close(reset)
			return
		}
		if r, ok := f.(*http2.RSTStreamFrame); ok {
			reset <- r.StreamID
		}
	}
}

// A request holds its part of the account until its answer is written, and the client has writeWithin to make room for
// each part of it. A handler that writes nothing meanwhile may take as long as it likes.
func TestStreams_HoldTheAccountUntilTheAnswerIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := startPiped(t, func(c *Config) {
			c.MaxConnections = 10
			c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/long", "/drips":
					_, _ = w.Write(make([]byte, 64<<10))
				case "/events":
					_ = http.NewResponseController(w).Flush()
					time.Sleep(10 * time.Minute)
				default:
					_, _ = io.WriteString(w, "short")
				}
			})
		})
		reset := make(chan uint32, 10)
		go c.readResets(reset)
		c.greet(0)
		short, long, events, drips := c.ask("/short", 15), c.ask("/long", 0), c.ask("/events", 0), c.ask("/drips", 0)
		began := time.Now()
		drip := func() {
			for range 10 {
				time.Sleep(writeWithin - time.Second)
				_ = c.WriteWindowUpdate(drips, 100)
			}
		}
		synctest.Wait()
		if held := s.account.held.Load(); held < 60_000+4*perRequest {
			t.Errorf("%d bytes are held while nothing is written", held)
		}
		go drip()
		ended := map[uint32]time.Duration{}
		for range 3 {
			ended[<-reset] = time.Since(began).Round(time.Second)
		}
		if ended[short] != writeWithin || ended[long] != writeWithin || ended[drips] != 11*writeWithin-10*time.Second {
			t.Errorf("streams were ended after %v", ended)
		}
		time.Sleep(time.Minute)
		if _, early := ended[events]; early || s.account.held.Load() == 0 || s.account.held.Load() > 2*perRequest {
			t.Errorf("%d bytes are held for a handler that runs; ended: %v", s.account.held.Load(), ended)
		}
		_ = c.Close()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if held := s.account.held.Load(); held != 0 {
			t.Errorf("%d bytes are held after the end", held)
		}
	})
}

// If the account is full, a connection has one request outside it, even if its client reads no responses.
func TestStreams_ReadNothingWhileARejectedRequestIsUnanswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := startPiped(t, func(c *Config) { c.MaxConnections = 10 })
		s.account.held.Store(s.account.limit)
		go func() {
			c.greet(0)
			for range 50 {
				c.ask("/", 15)
			}
		}()
		_, _ = c.ReadFrame() // the server's SETTINGS; the rest waits
		synctest.Wait()
		if n := s.account.rejected.Load(); n > 1 {
			t.Errorf("%d requests were rejected while the first has no answer", n)
		}
		_ = c.Close()
		synctest.Wait()
		if over := s.account.held.Load() - s.account.limit; over != 0 {
			t.Errorf("%d bytes are held after the end", over)
		}
	})
}

// net/http answers headers that are too long by itself; they hold the most that a header may, and requests after them
// are served.
func TestStreams_AccountForRequestsWithoutAHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := startPiped(t, func(c *Config) { c.MaxConnections = 10 })
		reset := make(chan uint32, 10)
		go c.readResets(reset)
		c.greet(0)
		c.ask("/", 20)
		c.ask("/", 0)
		synctest.Wait()
		if held := s.account.held.Load(); held < maxHeader+2*perRequest || s.account.rejected.Load() != 0 {
			t.Errorf("%d bytes are held, %d rejected", held, s.account.rejected.Load())
		}
		_ = c.Close()
		synctest.Wait()
		if held := s.account.held.Load(); held != 0 {
			t.Errorf("%d bytes are held after the end", held)
		}
	})
}

// A client that reads nothing does not learn that its header is bad, and its connection waits. The place of that header
// is for others meanwhile.
func TestStreams_ReleasePlaceWithoutHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s streams
		s.startFollowing(newAccount(&Config{MaxConnections: 10}))
		s.followReceived(&frame{kind: frameHeaders, flags: flagEndHeaders, stream: 1, size: 10})
		s.acquirePlace()
		st := s.awaited
		held := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return st.place != nil
		}
		time.Sleep(decodesWithin - time.Millisecond)
		synctest.Wait()
		if !held() {
			t.Error("the place is given back before net/http has made a request of the header")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if held() || s.awaited != st {
			t.Error("the place is held, or the connection is read, while nothing answers the header")
		}
		s.closeAll()
	})
}

// For any order of actions of client, server and handlers, the account holds exactly the open streams and the streams
// whose handlers run, and nothing after the end.
func TestStreams_ReleaseWhatTheyHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := newAccount(&Config{MaxConnections: rapid.SampledFrom([]int{0, 1, 5000}).Draw(t, "connections")})
		a.limit = rapid.SampledFrom([]int64{0, 3 * perRequest, 1 << 40}).Draw(t, "most")
		var s streams
		s.startFollowing(a)
		who := new(client)
		var running, all []*stream
		last := uint32(1)
		steps := map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				if s.complete && s.awaited != nil && !s.ending {
					return // nothing is read
				}
				last += 2
				s.followReceived(&frame{kind: frameHeaders, flags: flagEndHeaders, stream: last, size: 10})
				s.acquirePlace()
				all = append(all, s.awaited)
			},
			"handler": func(t *rapid.T) {
				if s.awaited != nil && !s.awaited.running && !s.awaited.rejected {
					running = append(running, s.beginHandler(who, rapid.Int64Range(0, maxHeader).Draw(t, "header")))
				}
			},
			"return": func(t *rapid.T) {
				if len(running) > 0 {
					i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
					s.finishHandler(running[i])
					running = append(running[:i], running[i+1:]...)
				}
			},
			"frame": func(t *rapid.T) {
				f := &frame{
					kind:   rapid.SampledFrom([]byte{frameData, frameHeaders, frameReset, 6}).Draw(t, "kind"),
					flags:  rapid.SampledFrom([]byte{0, flagEndStream}).Draw(t, "flags"),
					stream: rapid.Uint32Range(1, last).Draw(t, "stream") | 1, code: 8,
				}
				if f.kind != frameHeaders && rapid.Bool().Draw(t, "received") {
					s.followReceived(f)
				} else {
					s.followSent(f)
				}
			},
			"goaway": func(t *rapid.T) {
				if rapid.IntRange(0, 20).Draw(t, "rare") == 0 {
					s.followSent(&frame{kind: frameGoAway})
				}
			},
			"": func(t *rapid.T) {
				if s.live < len(running) || s.live < len(s.open) || s.live > len(running)+len(s.open) {
					t.Fatalf("%d live of %d that run and %d that are open", s.live, len(running), len(s.open))
				}
				if a.held.Load() < int64(len(running))*perRequest ||
					a.held.Load() != who.held.Load()+unhandledBytes(&s) {
					t.Fatalf("%d bytes are held with %d that run, %d of the client", a.held.Load(), len(running),
						who.held.Load())
				}
			},
		}
		t.Repeat(steps)
		s.closeAll()
		for _, st := range running {
			s.finishHandler(st)
		}
		if s.live != 0 || a.held.Load() != 0 || who.held.Load() != 0 || who.headers.Load() != 0 {
			t.Fatalf("after the end %d live, %d held", s.live, a.held.Load())
		}
		if slices.ContainsFunc(all, func(st *stream) bool { return st != nil && st.place != nil }) {
			t.Fatal("a place is held after the end")
		}
	})
}

// unhandledBytes returns the bytes of the account that requests hold which net/http answers by itself.
func unhandledBytes(s *streams) (n int64) {
	for _, st := range s.open {
		if st.client == nil {
			n += st.held
		}
	}
	return n
}
