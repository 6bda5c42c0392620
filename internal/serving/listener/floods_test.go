package listener

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What a client sends without end: nothing of it is a request.
func controlFrames() map[string]func(*http2.Framer) error {
	return map[string]func(*http2.Framer) error{
		"PING":          func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) },
		"PING answers":  func(f *http2.Framer) error { return f.WritePing(true, [8]byte{1}) },
		"SETTINGS":      func(f *http2.Framer) error { return f.WriteSettings() },
		"PRIORITY":      func(f *http2.Framer) error { return f.WritePriority(3, http2.PriorityParam{}) },
		"WINDOW_UPDATE": func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1) },
		"unknown":       func(f *http2.Framer) error { return f.WriteRawFrame(0xbe, 0, 0, []byte("x")) },
	}
}

// A flood of control frames ends its connection, with and without TLS, also where the client takes no answer.
func TestFloodsEndTheConnection(t *testing.T) {
	t.Parallel()
	for name, write := range controlFrames() {
		for _, secure := range []bool{false, true} {
			s, _ := start(t, func(c *Config) {
				if secure {
					c.TLS = newFiles(t).write(t, "one", false)
				}
			})
			c := dial(t, s)
			if secure {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			}
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			go func() { _, _ = io.Copy(io.Discard, c) }()
			f := http2.NewFramer(c, nil)
			if _, err := io.WriteString(c, preface); err != nil {
				t.Fatal(err)
			}
			err := f.WriteSettings()
			for n := 0; err == nil && n < 100_000; n++ {
				err = write(f)
			}
			if err == nil || s.Stats().Floods != 1 {
				t.Errorf("%s, TLS %v: %v, %+v", name, secure, err, s.Stats())
			}
		}
	}
}

// script is a connection that is read from a list and remembers nothing of what is written.
type script struct {
	net.Conn
	next   []byte
	closed atomic.Bool
}

func (s *script) Write(p []byte) (int, error) { return len(p), nil }
func (s *script) Close() error                { s.closed.Store(true); return nil }
func (s *script) Read(p []byte) (int, error) {
	n := copy(p, s.next)
	s.next = s.next[n:]
	return n, nil
}

// Control frames that come with requests and answers, or now and then, end nothing.
func TestUsualControlFramesPass(t *testing.T) {
	t.Parallel()
	ping := func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{1}) }
	grant := func(f *http2.Framer) { _ = f.WriteWindowUpdate(1, 1) }
	for name, c := range map[string]struct {
		each    time.Duration // of what follows, 20,000 times
		receive func(*http2.Framer)
		send    func(*http2.Framer)
		ends    bool
	}{
		"nine pings a second":    {each: time.Second / 9, receive: ping},
		"eleven pings a second":  {each: time.Second / 11, receive: ping, ends: true},
		"a ping for each answer": {receive: ping, send: func(f *http2.Framer) { _ = f.WriteData(1, false, []byte("x")) }},
		"pings and answers":      {receive: ping, send: ping, ends: true},
		"data without bytes":     {receive: func(f *http2.Framer) { _ = f.WriteData(1, false, nil) }, ends: true},
		"uploads":                {receive: func(f *http2.Framer) { _ = f.WriteData(1, false, []byte("x")) }},
		"sixteen grants for each 4 KiB that are sent": {
			receive: func(f *http2.Framer) {
				for range 16 {
					grant(f)
				}
			},
			send: func(f *http2.Framer) { _ = f.WriteData(1, false, make([]byte, 4<<10)) },
		},
		"a request with ten frames": {receive: func(f *http2.Framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: hpack.AppendHuffmanString(nil, "x")})
			for range 10 {
				ping(f)
			}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			floods := new(atomic.Uint64)
			below := &script{}
			conn := &framedConn{Conn: below, floods: floods, since: time.Now()}
			sent := http2.NewFramer(conn, nil)
			read := func(b []byte) error {
				for below.next = b; len(below.next) > 0; {
					if _, err := conn.Read(make([]byte, 5)); err != nil { // frames come in parts
						return err
					}
				}
				return nil
			}
			err := read([]byte(preface))
			for n := 0; err == nil && n < 20_000; n++ {
				time.Sleep(c.each)
				if c.send != nil {
					c.send(sent)
				}
				var b writeTo
				c.receive(http2.NewFramer(&b, nil))
				err = read(b)
			}
			if (err != nil) != c.ends || below.closed.Load() != c.ends || (floods.Load() == 1) != c.ends {
				t.Errorf("%s: %v, closed %v, %d floods", name, err, below.closed.Load(), floods.Load())
			}
		})
	}
}

type writeTo []byte

func (w *writeTo) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }

// What is no HTTP/2 is not read as its frames.
func TestOtherProtocolsHaveNoFrames(t *testing.T) {
	t.Parallel()
	below := &script{next: []byte("PRI * HTTP/2.0\r\n\r\nSX" + string(make([]byte, 100_000)))}
	conn := &framedConn{Conn: below, floods: new(atomic.Uint64), since: time.Now()}
	for len(below.next) > 0 {
		if _, err := conn.Read(make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
	}
}
