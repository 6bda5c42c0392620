package proxy

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
)

// closedConn is a connection that the upstream has closed, without an answer.
type closedConn struct{ net.Conn }

func (closedConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }
func (closedConn) Read([]byte) (int, error)  { return 0, io.EOF }

// A Write that fails ends when Read has: by then the answer is read.
func TestUpstreamConn_FailedWriteAwaitsAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &upstreamConn{Conn: closedConn{}, ended: make(chan struct{})}
		written := make(chan error, 1)
		go func() {
			_, err := c.Write([]byte("body"))
			written <- err
		}()
		synctest.Wait()
		select {
		case err := <-written:
			t.Fatalf("it ended before the answer was read: %v", err)
		default:
		}
		if _, err := c.Read(nil); !errors.Is(err, io.EOF) {
			t.Errorf("Read: %v", err)
		}
		if err := <-written; !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write: %v", err)
		}
	})
}
