package link

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

const delay = 150 * time.Millisecond

func TestSlow_DelaysEachAnswerOnPresentAndNewConnections(t *testing.T) {
	l := open(t)
	old := dial(t, l)
	say(t, old, "a")
	l.Slow(delay)
	for _, conn := range []net.Conn{old, dial(t, l)} {
		began := time.Now()
		say(t, conn, "b")
		if took := time.Since(began); took < delay {
			t.Errorf("the answer took %v, less than %v", took, delay)
		}
	}
}

func TestSlow_KeepsTheOrder(t *testing.T) {
	l := open(t)
	conn := dial(t, l)
	l.Slow(delay)
	said := ""
	for i := range 20 {
		word := string(rune('a' + i))
		if _, err := io.WriteString(conn, word); err != nil {
			t.Fatal(err)
		}
		said += word
		if i == 10 {
			l.Slow(delay / 2) // answers that wait may not be overtaken
		}
	}
	hear(t, conn, said)
}

func TestSlow_DoesNotBlockOtherConnections(t *testing.T) {
	l := open(t)
	l.Slow(delay)
	const conns = 100 // one after the other they would take far longer than a machine stands still
	var all [conns]net.Conn
	for i := range all {
		all[i] = dial(t, l)
	}
	began := time.Now()
	for _, conn := range all {
		if _, err := io.WriteString(conn, "a"); err != nil {
			t.Fatal(err)
		}
	}
	for _, conn := range all {
		hear(t, conn, "a")
	}
	if took := time.Since(began); took >= conns*delay {
		t.Errorf("%d answers took %v, one after the other", conns, took)
	}
}

func TestSlow_ZeroReleasesWhatWaits(t *testing.T) {
	l := open(t)
	conn := dial(t, l)
	l.Slow(time.Hour)
	if _, err := io.WriteString(conn, "a"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(delay)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("an answer that waits for an hour: %v", err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	l.Slow(0)
	hear(t, conn, "a")
	say(t, conn, "b")
}

func TestSlow_DeliversAnswersOfAServerThatHasClosed(t *testing.T) {
	l := opened(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "bye") })
	l.Slow(delay)
	conn := dial(t, l)
	hear(t, conn, "bye")
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v", err)
	}
}

func TestClose_DoesNotWaitForSlowAnswers(t *testing.T) {
	l := open(t)
	conn := dial(t, l)
	l.Slow(time.Hour)
	if _, err := io.WriteString(conn, "a"); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// open opens a link to a server that sends all bytes back.
func open(t *testing.T) *Link {
	return opened(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
}

// opened opens a link to a server that serves each connection, and closes it.
func opened(t *testing.T, serve func(net.Conn)) *Link {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	l, err := New(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func say(t *testing.T, conn net.Conn, word string) {
	t.Helper()
	if _, err := io.WriteString(conn, word); err != nil {
		t.Fatal(err)
	}
	hear(t, conn, word)
}

func hear(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}
