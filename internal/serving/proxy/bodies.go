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

// clientBody is the body of a request. It records whether the client failed to send it whole, because the transport
// then fails too, which is no failure of the upstream.
type clientBody struct {
	io.ReadCloser
	ctx           context.Context              // of the request to the upstream
	conn          atomic.Pointer[upstreamConn] // of the request, with HTTP/1; nil if unknown
	ended, broken atomic.Bool                  // a transport reads in a goroutine of its own
}

// clientBodyKey is the context key of a request's clientBody.
type clientBodyKey struct{}

// bodyOf returns the clientBody of a request, or nil if it has none.
func bodyOf(r *http.Request) *clientBody {
	b, _ := r.Context().Value(clientBodyKey{}).(*clientBody)
	return b
}

func (b *clientBody) Read(p []byte) (int, error) {
	if b.ended.Load() {
		// The transport reads once more, when the server may have closed the body because of an early response.
		return 0, io.EOF
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

// awaitAnswer waits until the upstream has ended its work on a request that holds a slot and whose client has broken
// off the body. Otherwise the transport would close the connection and free the slot. Instead of the rest of the body,
// the upstream reads the end of the connection.
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

// abandonedWork is how long a request keeps its slot after the upstream could notice that the client has broken off the
// body, if the end of the upstream's work cannot be observed.
const abandonedWork = time.Second

// awaitEnd waits until the upstream has probably ended its work, if awaitAnswer cannot observe the end.
func (b *clientBody) awaitEnd() {
	if b.conn.Load() == nil && httplimit.OutlivedClient(b.ctx) != nil {
		wait.For(b.ctx, abandonedWork)
	}
}

// gotConn records the connection of a request. A connection of HTTP/2 is not recorded because it belongs to other
// requests too, and one with TLS is unknown. With both the upstream sees that the request is broken off.
func (b *clientBody) gotConn(i httptrace.GotConnInfo) {
	if conn, ok := i.Conn.(*upstreamConn); ok {
		b.conn.Store(conn)
	}
}

// hasFailed reports whether the body could not be read, or the client of ctx left before its end. It returns false if
// there is no body.
func (b *clientBody) hasFailed(ctx context.Context) bool {
	return b != nil && !b.ended.Load() && (b.broken.Load() || ctx.Err() != nil)
}

// answerEarly prepares a response that begins before the body has ended. An HTTP/1 server would read the rest of the
// body before it sends the response, and so take it from the transport, unless the connection ends with the response.
func (b *clientBody) answerEarly(res *http.Response) {
	if !b.ended.Load() && res.Request.ProtoMajor == 1 && res.StatusCode != http.StatusSwitchingProtocols {
		res.Header.Set("Connection", "close")
	}
}

// drainedBody is the body of a response to a request that holds a slot. If the client has left, Close reads the rest,
// and so waits until the upstream has ended its work. The request's context bounds the time.
type drainedBody struct {
	io.ReadCloser
	client context.Context
}

// maxDrained is the number of bytes that are read for a client that has left. An upstream that writes more notices the
// closed connection.
const maxDrained = 256 << 10

func (b *drainedBody) Close() error {
	if b.client.Err() != nil {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, maxDrained) // it is closed next, with or without an error
	}
	return b.ReadCloser.Close()
}

// dialFunc returns a function that opens connections to upstreams.
func dialFunc(d *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &upstreamConn{Conn: conn, ended: make(chan struct{})}, nil
	}
}

// upstreamConn is a connection to an upstream. An upstream may respond to a request and close the connection without
// having read the request's body. Write then fails, and the transport would break off the response that it is reading,
// so a failed Write returns only when nothing more can be read.
type upstreamConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{} // closed when Read has failed, by Close, or when Write has a deadline
}

func (c *upstreamConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		<-c.ended // the upstream has closed the connection; Read returns the rest
	}
	return n, err
}

func (c *upstreamConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.signalEnd()
	}
	return n, err
}

func (c *upstreamConn) Close() error {
	c.signalEnd()
	return c.Conn.Close()
}

// SetWriteDeadline implements net.Conn. TLS sets a deadline before it closes the connection, and reads nothing from
// then on.
func (c *upstreamConn) SetWriteDeadline(t time.Time) error {
	c.signalEnd()
	return c.Conn.SetWriteDeadline(t)
}

func (c *upstreamConn) signalEnd() { c.once.Do(func() { close(c.ended) }) }
