package listener

import (
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// deadlines is a connection that notes which deadlines are set, from a moment on.
type deadlines struct {
	net.Conn
	from time.Time
	set  []time.Duration // -1: taken back
}

func (d *deadlines) Read(p []byte) (int, error)        { return len(p), nil }
func (d *deadlines) Write(p []byte) (int, error)       { return len(p), nil }
func (d *deadlines) SetDeadline(t time.Time) error     { return d.SetWriteDeadline(t) }
func (d *deadlines) SetReadDeadline(t time.Time) error { return d.SetWriteDeadline(t) }
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
func TestWritesHaveDeadlines(t *testing.T) {
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

// A read has the deadline that was set last, or one that is a little earlier. One that no read meets is
// never set.
func TestReadsHaveDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &deadlines{from: began}
		c := &conn{Conn: d}
		set := func(after time.Duration) { _ = c.SetReadDeadline(began.Add(after)) }
		read := func(want error) {
			t.Helper()
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		read(nil)
		set(2 * time.Minute)
		read(nil)
		set(10 * time.Second)
		_ = c.SetReadDeadline(time.Time{})
		set(0)
		read(os.ErrDeadlineExceeded)
		set(2*time.Minute + 999*time.Millisecond)
		read(nil)
		set(2*time.Minute + time.Second)
		read(nil)
		set(10 * time.Second)
		read(nil)
		set(10*time.Second + 600*time.Millisecond)
		read(nil)
		set(10*time.Second + 700*time.Millisecond)
		read(nil)
		_ = c.SetReadDeadline(time.Time{})
		read(nil)
		_ = c.SetDeadline(began.Add(time.Hour))
		read(nil)
		want := []time.Duration{120 * time.Second, 121 * time.Second, 10 * time.Second, 10700 * time.Millisecond, -1,
			time.Hour}
		if !slices.Equal(d.set, want) {
			t.Errorf("deadlines %v, want %v", d.set, want)
		}
	})
}

// A read that waits ends by the deadline that it began with, and by one that is set meanwhile.
func TestDeadlinesEndReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		c := &conn{Conn: here, owner: new(conns)}
		defer c.Close()
		for i, set := range []func(){
			func() { time.Sleep(time.Minute) },
			func() { _ = c.SetReadDeadline(time.Unix(1, 0)) },
			func() { _ = c.SetDeadline(time.Unix(1, 0)) },
		} {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			ended := make(chan error, 1)
			go func() {
				_, err := c.Read(make([]byte, 1))
				ended <- err
			}()
			synctest.Wait()
			set()
			synctest.Wait()
			select {
			case err := <-ended:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%d: %v", i, err)
				}
			default:
				t.Fatalf("%d: the read goes on", i)
			}
		}
	})
}
