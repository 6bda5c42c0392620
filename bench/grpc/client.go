package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// client calls one method over one connection. It has one goroutine for all its calls, and sends everything at once
// when nothing is left to read, as a thread of Envoy does. A client of grpc-go takes as much of two cores as the
// service that is measured.
type client struct {
	method  string
	conn    net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
	frames  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32 // of the last call
	heard   uint32 // bytes of data since the window was last widened
}

// call is a call under way.
type call struct {
	caller  int
	began   time.Time
	message []byte // of the answer, with gRPC's prefix
}

const (
	window = 1 << 30
	prefix = 5 // length of the head of a message: a flag for compression, and the length
)

func dial(ctx context.Context, addr, method string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &client{
		method: method, conn: conn, in: bufio.NewReaderSize(conn, 64<<10), out: bufio.NewWriterSize(conn, 64<<10),
	}
	c.frames, c.encoder = http2.NewFramer(c.out, c.in), hpack.NewEncoder(&c.block)
	c.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.frames.SetReuseFrames()
	_, err = io.WriteString(c.out, http2.ClientPreface)
	return c, errors.Join(err,
		c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}),
		c.frames.WriteWindowUpdate(0, window-1<<16), c.out.Flush())
}

func (c *client) close() { _ = c.conn.Close() } // nothing is under way

// run keeps one call of each caller under way until end; each caller makes at least one. ask returns the next message
// of a caller. hear takes the answer, which it does not keep.
func (c *client) run(callers []int, end time.Time, ask func(caller int) []byte, hear func(*call) error) error {
	if err := c.conn.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return err
	}
	calls := map[uint32]*call{}
	for _, caller := range callers {
		if err := c.start(calls, &call{caller: caller}, ask); err != nil {
			return err
		}
	}
	for len(calls) > 0 {
		ended, err := c.read(calls)
		if err != nil {
			return err
		}
		if ended == nil {
			continue
		}
		if err := hear(ended); err != nil {
			return err
		}
		if time.Now().Before(end) {
			if err := c.start(calls, ended, ask); err != nil {
				return err
			}
		}
	}
	return nil
}

// start begins the next call of a caller.
func (c *client) start(calls map[uint32]*call, of *call, ask func(int) []byte) error {
	c.stream += 2
	id := c.stream - 1
	c.block.Reset()
	for _, field := range [...]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: c.method},
		{Name: ":authority", Value: "bench"}, {Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		if err := c.encoder.WriteField(field); err != nil {
			return err
		}
	}
	message := ask(of.caller)
	body := binary.BigEndian.AppendUint32(make([]byte, 1, prefix+len(message)), uint32(len(message)))
	calls[id] = of
	of.began, of.message = time.Now(), of.message[:0]
	return errors.Join(
		c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true}),
		c.frames.WriteData(id, true, append(body, message...)))
}

// read reads one frame and returns the call that it ended, if it ended one.
func (c *client) read(calls map[uint32]*call) (*call, error) {
	if c.in.Buffered() == 0 {
		if err := c.out.Flush(); err != nil {
			return nil, err
		}
	}
	frame, err := c.frames.ReadFrame()
	if err != nil {
		return nil, err
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return nil, c.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return nil, c.frames.WritePing(true, f.Data)
		}
	case *http2.DataFrame:
		if one := calls[f.StreamID]; one != nil {
			one.message = append(one.message, f.Data()...)
		}
		return nil, c.widen(f.Length)
	case *http2.MetaHeadersFrame:
		if f.StreamEnded() {
			return c.end(calls, f)
		}
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		return nil, fmt.Errorf("the service says %v", f)
	}
	return nil, nil
}

// widen returns the bytes that were read to the connection's window, in large parts.
func (c *client) widen(n uint32) error {
	if c.heard += n; c.heard < window/2 {
		return nil
	}
	n, c.heard = c.heard, 0
	return c.frames.WriteWindowUpdate(0, n)
}

func (c *client) end(calls map[uint32]*call, f *http2.MetaHeadersFrame) (*call, error) {
	one := calls[f.StreamID]
	delete(calls, f.StreamID)
	for _, field := range f.RegularFields() {
		if field.Name == "grpc-status" && field.Value != "0" {
			return nil, fmt.Errorf("%s: status %v", c.method, f.Fields)
		}
	}
	if one == nil || len(one.message) < prefix {
		return nil, fmt.Errorf("%s: an answer without a message", c.method)
	}
	return one, nil
}
