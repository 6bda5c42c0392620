package listener

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// accepted is a connection without a network.
type accepted struct {
	net.Conn
	from string
}

func (accepted) Close() error { return nil }
func (a accepted) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from))
}

type accepting struct {
	net.Listener
	next accepted
}

func (a *accepting) Accept() (net.Conn, error) { return a.next, nil }

// A connection that was evicted stays out of the list of idle ones: HTTP/2 ends its requests, and reports it as idle,
// after it is closed.
func TestConns_EvictedStayOutOfIdle(t *testing.T) {
	t.Parallel()
	from := &accepting{next: accepted{from: "192.0.2.1:1"}}
	l := &conns{Listener: from, max: 2}
	accept := func() *conn {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c.(*conn)
	}
	a, b := accept(), accept()
	c := accept() // in place of a
	l.recordState(a, http.StateActive)
	l.recordState(a, http.StateIdle)
	_ = a.Close()
	if l.open != 2 || l.idle.Len() != 2 {
		t.Errorf("%d open, %d idle, want 2 and 2", l.open, l.idle.Len())
	}
	l.recordState(b, http.StateActive)
	l.recordState(c, http.StateActive)
	for range 3 {
		if ok, _ := l.add(&conn{Conn: from.next, owner: l}); ok || l.open != 2 {
			t.Errorf("added %v: %d open of at most 2", ok, l.open)
		}
	}
}

// One client, an address or a /64, takes at most its share of the connections, and no place of others.
func TestConns_BoundClientShare(t *testing.T) {
	t.Parallel()
	from := &accepting{}
	proxy := netip.MustParseAddr("192.0.2.9")
	l := &conns{Listener: from, max: 100, perClient: 3, trusted: func(a netip.Addr) bool { return a == proxy }}
	open := map[string]int{}
	busy := map[string]bool{}
	var all []*conn
	for _, addr := range []string{"192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.9:1"} {
		from.next = accepted{from: addr}
		for range 10 {
			c := &conn{Conn: from.next, owner: l}
			ok, victim := l.add(c)
			if ok {
				all = append(all, c)
				open[addr]++
				l.setIdle(c, !busy[addr])
			}
			if victim != nil {
				open[victim.Conn.(accepted).from]--
			}
		}
	}
	if want := 3 + 3 + 3 + 10; l.open != want || open["192.0.2.1:1"] != 3 || open["192.0.2.9:1"] != 10 ||
		open["[2001:db8::1]:1"]+open["[2001:db8::2]:1"] != 3 {
		t.Errorf("%d open, want %d: %v", l.open, want, open)
	}
	for _, c := range all {
		_ = c.Close()
		_ = c.Close()
	}
	if l.open != 0 || len(l.clients) != 0 || l.idle.Len() != 0 {
		t.Errorf("after all left: %d open, %d clients, %d idle", l.open, len(l.clients), l.idle.Len())
	}
}

// HPACK repeats a cookie of 60 KB by 15 bytes, so 5,000 requests that are held open would take 300 MB. The client gets
// 2 MiB of them, and then responses of 431. Requests of other clients are still answered.
func TestAccount_BoundsHeldHeaders(t *testing.T) {
	release := make(chan struct{})
	s, _ := start(t, func(c *Config) {
		c.MaxConnectionsClient = 1000
		c.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-release
			runtime.KeepAlive(r)
		})
	})
	defer close(release)
	before, wire := usedMemory(), 0
	for range 20 {
		c := dial(t, s)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = io.WriteString(c, http2.ClientPreface)
		frames := http2.NewFramer(c, c)
		_ = frames.WriteSettings()
		var b bytes.Buffer
		enc := hpack.NewEncoder(&b)
		for i := range uint32(250) {
			b.Reset()
			for _, f := range [][2]string{
				{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/"},
			} {
				_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
			}
			for range 15 {
				_ = enc.WriteField(hpack.HeaderField{Name: "cookie", Value: strings.Repeat("a", 4000)})
			}
			wire += b.Len() + 9
			if frames.WriteHeaders(
				http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: b.Bytes(), EndHeaders: true},
			) != nil {
				break // the server ended it
			}
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for last := uint64(0); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		n := s.Stats().Headers
		if n > 0 && n == last {
			break
		}
		last = n
	}
	grown := usedMemory() - before
	t.Logf("%d KiB on the wire, %d requests rejected: %d KiB of heap", wire>>10, s.Stats().Headers, grown>>10)
	if grown > 8<<20 || s.Stats().Headers == 0 {
		t.Errorf("%d MiB of heap, %d rejected", grown>>20, s.Stats().Headers)
	}
}

// Connections stay within the bound that a listener states, while a long header is read and while a handler holds it.
func TestListener_StaysWithinMemoryBound(t *testing.T) {
	const conns, header = 100, "GET / HTTP/1.1\r\nHost: x\r\n"
	release := make(chan struct{})
	held := make(chan struct{}, conns)
	s, _ := start(t, func(c *Config) {
		c.MaxConnections = conns
		c.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			held <- struct{}{}
			<-release
			runtime.KeepAlive(r)
		})
	})
	defer close(release)
	before := usedMemory()
	fields := header + strings.Repeat("X-Field: "+strings.Repeat("a", 1000)+"\r\n", 60)
	for i := range conns {
		end := ""
		if i%2 == 0 {
			end = "\r\n"
		}
		_, _ = io.WriteString(dial(t, s), fields+end)
	}
	for range conns / 2 {
		<-held
	}
	each := (usedMemory() - before) / conns
	t.Logf("%d KiB for each connection", each>>10)
	if bound := s.Stats().MemoryBound; each > perConnection || bound != conns*perConnection+minStreams {
		t.Errorf("%d bytes for each connection, and a bound of %d for %d", each, bound, conns)
	}
}

// usedMemory returns the bytes of the heap and of stacks that are in use.
func usedMemory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are empty after the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// HTTP/2 requests are rejected when the requests under way take all memory that the listener has for them. Requests of
// HTTP/1 have a counted connection each.
func TestAccount_BoundsStreamsOfAllClients(t *testing.T) {
	t.Parallel()
	s, _ := start(t, func(c *Config) { c.MaxConnections = 1 << 12 })
	only := func(p func(*http.Protocols, bool)) *http.Client {
		protocols := new(http.Protocols)
		p(protocols, true)
		return &http.Client{Transport: &http.Transport{Protocols: protocols}}
	}
	h1, h2 := only((*http.Protocols).SetHTTP1), only((*http.Protocols).SetUnencryptedHTTP2)
	for _, c := range []struct {
		client *http.Client
		held   int64
		want   int
	}{
		{h2, s.cfg.streamsBound() - perRequest - 400, http.StatusOK},
		{h2, s.cfg.streamsBound() - perRequest, http.StatusServiceUnavailable},
		{h1, s.cfg.streamsBound(), http.StatusOK},
	} {
		s.account.held.Store(c.held)
		res, err := c.client.Get("http://" + s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s with %d bytes held: %d, want %d", res.Proto, c.held, res.StatusCode, c.want)
		}
		// The client may have the answer before the server knows that it is written.
		await(t, "what was held before", func() bool { return s.account.held.Load() == c.held })
	}
	if s.Stats().Headers != 1 {
		t.Errorf("%d rejected, want 1", s.Stats().Headers)
	}
	if unbounded := (&Config{}); unbounded.streamsBound() != 0 || unbounded.memoryBound() != 0 {
		t.Error("a bound without max_connections")
	}
}

// One client has the same part of the requests under way as of the connections, and gets it back.
func TestAccount_BoundsClientShare(t *testing.T) {
	t.Parallel()
	a := newAccount(&Config{MaxConnections: 10_000, MaxConnectionsClient: 1000})
	each := int64(perRequest + 2*usualHeader)
	one, other := new(client), new(client)
	// fill holds requests of a client until one is rejected, and returns all of them.
	fill := func(c *client, most int64) (all []*stream) {
		for n := int64(0); n < most; n += each {
			st := &stream{client: c}
			if a.holdRoom(st, usualHeader); st.rejected {
				t.Fatalf("%v is rejected with %d of %d bytes held", c, n, most)
			}
			all = append(all, st)
		}
		return all
	}
	part := a.clientLimit - a.clientLimit%each
	if want := a.limit / 10; a.clientLimit > want || a.clientLimit < want-10_000 {
		t.Fatalf("one client may hold %d bytes of %d", a.clientLimit, a.limit)
	}
	held := fill(one, part)
	more := &stream{client: one}
	if a.holdRoom(more, usualHeader); more.rejectionStatus() != http.StatusServiceUnavailable || !more.rejected {
		t.Error("it gets more than its part")
	}
	held = append(held, more)
	held = append(append(held, fill(other, part)...), fill(nil, part)...)
	for _, st := range held {
		a.release(st)
	}
	for _, st := range fill(one, part) {
		a.release(st)
	}
	if a.held.Load()+one.held.Load()+other.held.Load()+one.headers.Load() != 0 {
		t.Errorf("%d of all, %d of one and %d of the other are held", a.held.Load(), one.held.Load(), other.held.Load())
	}
}
