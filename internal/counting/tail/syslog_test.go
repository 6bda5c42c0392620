package tail

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// received runs a Syslog until it has received n messages after send, and returns them.
func received(t *testing.T, cfg SyslogConfig, n int, send func(addr string)) ([]string, Stats) {
	t.Helper()
	cfg.Addr = "127.0.0.1:0"
	s, err := ListenSyslog(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var all []string
	done := make(chan error)
	go func() {
		done <- s.Run(ctx, func(line []byte) {
			if all = append(all, string(line)); len(all) == n {
				stop()
			}
		})
	}()
	send(s.Addr())
	if err := <-done; err != nil || len(all) != n {
		t.Errorf("%d messages of %d, %v", len(all), n, err)
	}
	return all, s.Stats()
}

func sendTo(t *testing.T, network, addr string, texts ...string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for _, text := range texts {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestSyslog_ReceivesDatagramsAndStreams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, network string
		texts, want   []string
		tooLong       uint64
	}{
		{"datagrams", "udp", []string{"<190>a b", "<190>c\n", "<190>" + strings.Repeat("x", 100), "<1>d\x00"},
			[]string{"<190>a b", "<190>c", "<1>d"}, 1},
		{"lines", "tcp", []string{"<190>a\n<190>b\r\n\n10.0.0.1 - c\n" + strings.Repeat("y", 300) + "\n1", "2 x\n"},
			[]string{"<190>a", "<190>b", "10.0.0.1 - c", "12 x"}, 1},
		{"lengths", "tcp", []string{"6 <190>a8 <190", ">a\nb80 <190>" + strings.Repeat("z", 75), "5 <1>ab<190>c\n"},
			[]string{"<190>a", "<190>a\nb", "<1>ab", "<190>c"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, stats := received(t, SyslogConfig{MaxLine: 64}, len(tt.want), func(addr string) {
				sendTo(t, tt.network, addr, tt.texts...)
			})
			if !slices.Equal(got, tt.want) || stats.TooLong != tt.tooLong || stats.Lines != uint64(len(tt.want)) {
				t.Errorf("%q, %+v, want %q", got, stats, tt.want)
			}
		})
	}
}

// Nothing is read from addresses that may not send, and connections beyond the bound are closed.
func TestSyslog_RejectsOtherSendersAndConnections(t *testing.T) {
	t.Parallel()
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	_, stats := received(t, SyslogConfig{Allow: allow, MaxConnections: 1}, 1,
		func(addr string) {
			other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
			refused, err := other.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer refused.Close()
			closed(t, refused)
			first := sendTo(t, "tcp", addr, "<190>")
			closed(t, sendTo(t, "tcp", addr))
			if _, err := first.Write([]byte("a\n")); err != nil {
				t.Fatal(err)
			}
		})
	if stats.Rejected != 2 {
		t.Errorf("%+v", stats)
	}
}

// closed waits until the other side closes a connection.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v", n, err)
	}
}

// For any input of a connection, no message is longer than the bound, and messages that are framed by lengths are read
// again.
func FuzzSyslogStream(f *testing.F) {
	f.Add([]byte("6 <190>a<190>b\n99999 <1>x"))
	f.Add([]byte("\n1 2 <\n<>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &Syslog{cfg: SyslogConfig{MaxLine: 64}}
		read := func(text []byte) (all [][]byte) {
			r := bufio.NewReaderSize(bytes.NewReader(text), s.cfg.MaxLine+1)
			for {
				line, err := s.readFrame(r)
				if len(line) > s.cfg.MaxLine+1 {
					t.Fatalf("%q is too long", line)
				}
				if err != nil {
					return all
				}
				all = append(all, bytes.Clone(line))
			}
		}
		read(text)
		if len(text) > 0 && len(text) <= s.cfg.MaxLine-1 {
			framed := fmt.Appendf(nil, "%d <%s", len(text)+1, text)
			if got := read(append(framed, framed...)); len(got) != 2 || !bytes.Equal(got[0][1:], text) {
				t.Fatalf("%q is read as %q", framed, got)
			}
		}
	})
}
