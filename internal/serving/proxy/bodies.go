package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/wait"
)

// clientBody is the body of a request. It records whether the client failed to send it whole: then
// the transport fails too, and that is no failure of the upstream.
type clientBody struct {
	io.ReadCloser
	ctx           context.Context              // of the request to the upstream
	conn          atomic.Pointer[upstreamConn] // of the request, with HTTP/1; nil: not known
	ended, broken atomic.Bool                  // a transport reads in a goroutine of its own
}

// clientBodyKey is where the context of a request has its clientBody.
type clientBodyKey struct{}

// bodyOf is the clientBody of a request; nil: it has none.
func bodyOf(r *http.Request) *clientBody {
	b, _ := r.Context().Value(clientBodyKey{}).(*clientBody)
	return b
}

func (b *clientBody) Read(p []byte) (int, error) {
	if b.ended.Load() {
		return 0, io.EOF // the transport reads once more, when the server may have closed the body for an early answer
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil, errors.Is(err, http.ErrBodyReadAfterClose):
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
	default:
		b.broken.Store(true)
		b.awaitAnswer()
	}
	return n, err
}

// awaitAnswer waits until the upstream has ended its work on a request that holds a slot and whose
// client has broken off the body: the transport would close the connection, and free the slot. The
// upstream reads the end of the connection in place of the rest of the body.
func (b *clientBody) awaitAnswer() {
	conn := b.conn.Load()
	if conn == nil || httplimit.OutlivedClient(b.ctx) == nil {
		return
	}
	if half, ok := conn.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		select {
		case <-b.ctx.Done():
		case <-conn.ended:
		}
	}
}

// abandonedWork is how long a request that holds a slot keeps it after its upstream was told that the client has broken
// off the body, if it is not known when the upstream ends its work.
const abandonedWork = time.Second

// awaitEnd waits until the upstream has probably ended its work, where awaitAnswer cannot know it.
func (b *clientBody) awaitEnd() {
	if b.conn.Load() == nil && httplimit.OutlivedClient(b.ctx) != nil {
		wait.For(b.ctx, abandonedWork)
	}
}

// gotConn records the connection of a request. That of HTTP/2 belongs to other requests too, and one
// with TLS is not known: there the upstream sees that the request is broken off.
func (b *clientBody) gotConn(i httptrace.GotConnInfo) {
	if conn, ok := i.Conn.(*upstreamConn); ok {
		b.conn.Store(conn)
	}
}

// failed reports whether the body could not be read, or the client of ctx left before its end; false
// without a body.
func (b *clientBody) failed(ctx context.Context) bool {
	return b != nil && !b.ended.Load() && (b.broken.Load() || ctx.Err() != nil)
}

// answerEarly prepares an answer that begins before the body has ended. An HTTP/1 server would read the
// rest of the body before it sends the answer, and so take it from the transport, but for a connection
// that ends with the answer.
func (b *clientBody) answerEarly(res *http.Response) {
	if !b.ended.Load() && res.Request.ProtoMajor == 1 && res.StatusCode != http.StatusSwitchingProtocols {
		res.Header.Set("Connection", "close")
	}
}

// drainedBody is the body of an answer to a request that holds a slot. If the client has left, Close
// reads the rest, and so waits until the upstream has ended its work. The request's context bounds the
// time.
type drainedBody struct {
	io.ReadCloser
	client context.Context
}

// maxDrained is how many bytes are read for a client that has left. An upstream that writes more
// notices the closed connection.
const maxDrained = 256 << 10

func (b *drainedBody) Close() error {
	if b.client.Err() != nil {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, maxDrained) // ended by an error or not, it is closed now
	}
	return b.ReadCloser.Close()
}

// dial opens connections to upstreams.
func dial(d *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &upstreamConn{Conn: conn, ended: make(chan struct{})}, nil
	}
}

// upstreamConn is a connection to an upstream. An upstream may answer a request and close the
// connection without having read its body: Write fails then, and the transport would break off the
// answer that it is reading. So a Write that fails returns when nothing more can be read.
type upstreamConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{} // closed when Read has failed, by Close, or when Write has a deadline
}

func (c *upstreamConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		<-c.ended // the upstream has closed the connection: Read ends with what has arrived
	}
	return n, err
}

func (c *upstreamConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

func (c *upstreamConn) Close() error {
	c.end()
	return c.Conn.Close()
}

// SetWriteDeadline implements net.Conn. TLS sets one before it closes the connection: nothing is read
// from then on.
func (c *upstreamConn) SetWriteDeadline(t time.Time) error {
	c.end()
	return c.Conn.SetWriteDeadline(t)
}

func (c *upstreamConn) end() { c.once.Do(func() { close(c.ended) }) }
