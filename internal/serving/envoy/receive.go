package envoy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/internal/protofield"
)

// Bounds of the calls under way, in bytes.
const (
	// A message is received in parts of this size, so that a body that nothing reads is not held.
	chunk = 64 << 10
	// maxKept bounds the kept part of one message. Envoy's header of 60 KiB, its default, is far below.
	maxKept = 1 << 20
	// callBytes is the memory of a call beside its header and the kept fields: its stream's window, a chunk, its
	// goroutine and its response.
	callBytes = streamWindow + chunk + 8<<10
	// CallsBound is for all calls together. A part of it is for health checks and reflection, because health checks
	// need no token.
	CallsBound    = 256 << 20
	servicesBound = CallsBound - probesBound
	probesBound   = 16 << 20
)

var (
	errTooLong = errors.New("envoy: the message is too long")
	errBusy    = status.Error(codes.ResourceExhausted, "envoy: the calls under way take all memory that they may have")
)

// account bounds the total bytes of the calls under way.
type account struct {
	held atomic.Int64
	most int64
}

func (a *account) acquireBytes(n int64) bool {
	if a.held.Add(n) <= a.most {
		return true
	}
	a.held.Add(-n)
	return false
}

// share is one call's part of an account. The handler of the call owns it once stop has returned true. A call that ends
// before it has a handler returns its share by itself.
type share struct {
	account *account
	bytes   int64
	stop    func() bool
}

type shareKey struct{}

// acquireShare takes the bytes of a call before any part of its message is kept.
func (a *account) acquireShare(ctx context.Context, header metadata.MD) (context.Context, bool) {
	c := &share{account: a, bytes: callBytes}
	for name, values := range header {
		for _, v := range values {
			c.bytes += int64(len(name) + len(v) + 32)
		}
	}
	if !a.acquireBytes(c.bytes) {
		return ctx, false
	}
	c.stop = context.AfterFunc(ctx, c.release)
	return context.WithValue(ctx, shareKey{}, c), true
}

func (s *share) release() { s.account.held.Add(-s.bytes) }

// acquireBytes takes n bytes that are kept until the call ends.
func (s *share) acquireBytes(n int) bool {
	if !s.account.acquireBytes(int64(n)) {
		return false
	}
	s.bytes += int64(n)
	return true
}

// releaseBuffers returns the bytes that a call needs only while its message is under way.
func (s *share) releaseBuffers() {
	s.account.held.Add(-streamWindow - chunk)
	s.bytes -= streamWindow + chunk
}

// source is a stream of gRPC from which a message can be read in parts. RecvMsg would hold a whole message, and would
// end a message that is too long with an error, after which Envoy lets the request pass.
type source interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// message is the message of a call. Some fields of it are kept, others are skipped.
type message struct {
	from  source
	share *share
	size  int // of the message
	at    int // bytes that were read or skipped
	left  int // bytes that have not been received
	kept  int
	buf   []byte     // received bytes, from at on
	held  mem.Buffer // buf is a part of it; may be nil
}

// openMessage begins to receive the message of a call.
func openMessage(ctx context.Context, c *share) (*message, error) {
	from, ok := grpc.ServerTransportStreamFromContext(ctx).(source)
	if !ok {
		return nil, status.Error(codes.Internal, "envoy: the stream cannot be read")
	}
	var head [5]byte
	if err := from.ReadMessageHeader(head[:]); err != nil {
		return nil, callError(err)
	}
	if head[0] != 0 {
		return nil, status.Error(codes.Unimplemented, "envoy: the message is compressed")
	}
	size := int(binary.BigEndian.Uint32(head[1:]))
	return &message{from: from, share: c, size: size, left: size}, nil
}

func callError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Error(codes.Internal, "envoy: the call ended before its message")
	}
	return status.Convert(err).Err()
}

// close awaits the end of the call's stream, so that no more bytes of it are held.
func (m *message) close() error {
	m.free()
	if err := m.from.ReadMessageHeader(make([]byte, 1)); errors.Is(err, io.EOF) {
		m.share.releaseBuffers()
		return nil
	} else if err != nil {
		return callError(err)
	}
	return status.Error(codes.Internal, "envoy: the call has a second message")
}

func (m *message) free() {
	if m.held != nil {
		m.held.Free()
	}
	m.held, m.buf = nil, nil
}

// fill makes n bytes ready in buf, or all that remain.
func (m *message) fill(n int) error {
	if len(m.buf) >= n || m.left == 0 {
		return nil
	}
	want := min(m.left, max(n-len(m.buf), chunk))
	data, err := m.from.Read(want)
	if err != nil {
		return callError(err)
	}
	m.left -= want
	if len(m.buf) > 0 {
		data = append(mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), m.buf...))}, data...)
	}
	m.free()
	m.held = data.MaterializeToBuffer(mem.DefaultBufferPool())
	m.buf = m.held.ReadOnlyData()
	data.Free()
	return nil
}

// readBytes returns the next n bytes of the message, which are valid until more are read.
func (m *message) readBytes(n int) ([]byte, error) {
	if m.kept += n; m.kept > maxKept {
		return nil, errTooLong
	}
	if !m.share.acquireBytes(n) {
		return nil, errBusy
	}
	if err := m.fill(n); err != nil {
		return nil, err
	}
	if len(m.buf) < n {
		return nil, protofield.ErrMalformed
	}
	b := m.buf[:n:n]
	m.buf, m.at = m.buf[n:], m.at+n
	return b, nil
}

// skip passes over n bytes, of which it holds a chunk at a time.
func (m *message) skip(n int) error {
	for n > 0 {
		if err := m.fill(1); err != nil {
			return err
		}
		if len(m.buf) == 0 {
			return protofield.ErrMalformed
		}
		part := min(n, len(m.buf))
		m.buf, m.at, n = m.buf[part:], m.at+part, n-part
	}
	return nil
}

func (m *message) readVarint() (uint64, error) {
	if err := m.fill(binary.MaxVarintLen64); err != nil {
		return 0, err
	}
	v, n := protowire.ConsumeVarint(m.buf)
	if n < 0 {
		return 0, protofield.ErrMalformed
	}
	m.buf, m.at = m.buf[n:], m.at+n
	return v, nil
}

// visitFields calls f with each length-delimited field of a part of n bytes. f may read size bytes; visitFields skips
// the rest, and fields of other types.
func (m *message) visitFields(n int, f func(num protowire.Number, size int) error) error {
	end, groups := m.at+n, 0
	for m.at < end {
		tag, err := m.readVarint()
		if err != nil {
			return err
		}
		num, typ := protowire.DecodeTag(tag)
		if num < protowire.MinValidNumber {
			return protofield.ErrMalformed
		}
		size := uint64(0)
		switch typ {
		case protowire.VarintType:
			_, err = m.readVarint()
		case protowire.Fixed32Type:
			size = 4
		case protowire.Fixed64Type:
			size = 8
		case protowire.BytesType:
			size, err = m.readVarint()
		case protowire.StartGroupType:
			groups++
		case protowire.EndGroupType:
			groups--
		default:
			err = protofield.ErrMalformed
		}
		if err == nil && (m.at > end || size > uint64(end-m.at) || groups < 0) {
			err = protofield.ErrMalformed
		}
		next := m.at + int(size)
		if err == nil && typ == protowire.BytesType && groups == 0 {
			err = f(num, int(size))
		}
		if err == nil {
			err = m.skip(next - m.at)
		}
		if err != nil {
			return err
		}
	}
	if groups > 0 {
		return protofield.ErrMalformed
	}
	return nil
}
