package listener

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// deadlines is a connection that notes which deadlines of its writes are set, from a moment on.
type deadlines struct {
	net.Conn
	from time.Time
	set  []time.Duration // -1: taken back
}

func (d *deadlines) Write(p []byte) (int, error)   { return len(p), nil }
func (d *deadlines) SetDeadline(t time.Time) error { return d.SetWriteDeadline(t) }
func (d *deadlines) SetWriteDeadline(t time.Time) error {
	at := time.Duration(-1)
	if !t.IsZero() {
		at = t.Sub(d.from)
	}
	d.set = append(d.set, at)
	return nil
}

// Each write has a deadline, which is set once a second. One that the handler set stays until
// it or who takes the connection over takes it back.
func TestConn_SetsWriteDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &deadlines{from: began}
		c := &conn{Conn: d}
		write := func(after time.Duration) {
			time.Sleep(after)
			if _, err := c.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			_ = c.SetWriteDeadline(time.Time{}) // as the server does after each request
		}
		write(0)
		write(999 * time.Millisecond)
		write(time.Millisecond)
		write(time.Minute)
		_ = c.SetWriteDeadline(began.Add(time.Hour))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		write(0)
		write(0)
		_ = c.SetDeadline(time.Time{})
		write(0)
		want := []time.Duration{30 * time.Second, 31 * time.Second, 91 * time.Second, time.Hour, -1, 91 * time.Second,
			-1, 91 * time.Second}
		if !slices.Equal(d.set, want) {
			t.Errorf("deadlines %v, want %v", d.set, want)
		}
	})
}
