package listener

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// controlFrames returns functions that write frames which belong to no request. Clients may send them without end.
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
func TestFramedConn_EndsFloodedConnection(t *testing.T) {
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

// Requests that are taken back as soon as they are made, by the client or by a frame that makes the server take them
// back, end their connection; so they do where another server than net/http reads it. Those that are answered, or
// taken back later, end nothing.
func TestStreams_ResetsEndTheConnection(t *testing.T) {
	t.Parallel()
	request := func(f *http2.Framer, id uint32) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x82}, EndHeaders: true})
	}
	reset := func(f *http2.Framer, id uint32) { _ = f.WriteRSTStream(id, http2.ErrCodeCancel) }
	leave := func(f *http2.Framer, id uint32) { _ = f.WriteGoAway(1, http2.ErrCodeNo, nil) }
	answer := func(f *http2.Framer, id uint32) { _ = f.WriteData(id, true, nil) }
	for name, c := range map[string]struct {
		each          int // requests at once
		after         time.Duration
		receive, send func(f *http2.Framer, id uint32) // the fate of a request
		ends          bool
	}{
		"rapid reset":           {receive: reset, ends: true},
		"made you reset":        {send: reset, ends: true},
		"requests after GOAWAY": {send: leave, ends: true},
		"answers":               {send: answer},
		"answers, then resets":  {send: answer, receive: reset},
		"late resets":           {each: 50, after: time.Second, receive: reset},
		"half is taken back": {receive: func(f *http2.Framer, id uint32) {
			if id%4 == 1 {
				reset(f, id)
			}
		}, send: func(f *http2.Framer, id uint32) {
			if id%4 == 3 {
				answer(f, id)
			}
		}},
		"the body is not needed": {send: func(f *http2.Framer, id uint32) {
			_ = f.WriteRSTStream(id, http2.ErrCodeNo)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			below, floods := &script{}, new(atomic.Uint64)
			conn := newFramedConn(below, floods, nil)
			sent := http2.NewFramer(conn, nil)
			read := func(write func(f *http2.Framer)) error {
				var b writeTo
				write(http2.NewFramer(&b, nil))
				for below.next = b; len(below.next) > 0; {
					if _, err := conn.Read(make([]byte, 64)); err != nil {
						return err
					}
				}
				return nil
			}
			below.next = []byte(preface)
			_, err := conn.Read(make([]byte, len(preface)))
			for id := uint32(1); err == nil && id < 10_000; {
				begun := id
				for range max(c.each, 1) {
					err = errors.Join(err, read(func(f *http2.Framer) { request(f, id) }))
					id += 2
				}
				time.Sleep(c.after)
				for ; begun < id; begun += 2 {
					if c.send != nil {
						c.send(sent, begun)
					}
					if c.receive != nil && err == nil {
						err = read(func(f *http2.Framer) { c.receive(f, begun) })
					}
				}
			}
			if (err != nil) != c.ends || floods.Load() == 1 != c.ends {
				t.Errorf("%s: %v, %d floods", name, err, floods.Load())
			}
		})
	}
}

// script is a connection that reads from a list and discards the written bytes.
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
func TestFramedConn_PassesUsualControlFrames(t *testing.T) {
	t.Parallel()
	ping := func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{1}) }
	grant := func(f *http2.Framer) { _ = f.WriteWindowUpdate(1, 1) }
	for name, c := range map[string]struct {
		each    time.Duration // interval of the calls below, which are made 20,000 times
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
		"padding, and a ping": {receive: func(f *http2.Framer) {
			_ = f.WriteDataPadded(1, false, nil, make([]byte, 255))
			ping(f)
		}, ends: true},
		"uploads with padding, and a ping": {receive: func(f *http2.Framer) {
			_ = f.WriteDataPadded(1, false, []byte("x"), make([]byte, 9))
			ping(f)
		}},
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
			conn := newFramedConn(below, floods, nil)
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

// Bytes of other protocols are not read as frames of HTTP/2.
func TestFramedConn_IgnoresOtherProtocols(t *testing.T) {
	t.Parallel()
	below := &script{next: []byte("PRI * HTTP/2.0\r\n\r\nSX" + string(make([]byte, 100_000)))}
	conn := newFramedConn(below, new(atomic.Uint64), nil)
	for len(below.next) > 0 {
		if _, err := conn.Read(make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
	}
}
