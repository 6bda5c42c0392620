// Package udpstat reads the kernel's numbers about UDP on this machine: the largest receive buffer that a socket may
// ask for, the buffer that it is granted, and how many datagrams were thrown away. It changes nothing. On systems other
// than Linux it reports that the numbers are not known.
package udpstat

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/wait"
)

// Inspection holds the numbers of the kernel. MaxBuffer and Granted are -1 if they are not known.
type Inspection struct {
	// MaxBuffer is net.core.rmem_max, in bytes: the largest buffer that a socket gets on request.
	MaxBuffer int64
	// Asked is the receive buffer that a socket asked for, and Granted is the buffer that it could use, in bytes.
	Asked, Granted int64
	// Before and After are the machine's counters of UDP; After was read Between later.
	Before, After UDP
	Between       time.Duration
	// Err is the reason why some of the numbers are not known.
	Err string
}

type UDP struct {
	InDatagrams  int64
	InErrors     int64
	RcvbufErrors int64 // datagrams thrown away because a socket's buffer was full
}

// Inspect asks for a receive buffer of buffer bytes on a socket of its own, and reads the counters twice. It takes as
// long as between.
func Inspect(ctx context.Context, buffer int, between time.Duration) Inspection {
	return inspectProc(ctx, "/proc", buffer, between)
}

func inspectProc(ctx context.Context, proc string, buffer int, between time.Duration) Inspection {
	in := Inspection{MaxBuffer: -1, Asked: int64(buffer), Granted: -1, Between: between}
	var problems []string
	note := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	var err error
	in.MaxBuffer, err = readNumber(filepath.Join(proc, "sys/net/core/rmem_max"))
	note(err)
	in.Granted, err = requestBuffer(ctx, buffer)
	note(err)
	in.Before, err = readUDP(filepath.Join(proc, "net/snmp"))
	note(err)
	if err == nil {
		wait.For(ctx, between)
		in.After, err = readUDP(filepath.Join(proc, "net/snmp"))
		note(err)
	}
	in.Err = strings.Join(problems, "; ")
	return in
}

func readNumber(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return -1, fmt.Errorf("udpstat: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return -1, fmt.Errorf("udpstat: %s: %w", path, err)
	}
	return n, nil
}

// requestBuffer opens a socket on loopback, asks for a receive buffer, and reads its size back. The kernel doubles the
// requested size for its book-keeping, so that half of the size that it reports can be used.
func requestBuffer(ctx context.Context, buffer int) (int64, error) {
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		return -1, fmt.Errorf("udpstat: open a UDP socket: %w", err)
	}
	defer pc.Close()
	conn, ok := pc.(*net.UDPConn)
	if !ok {
		return -1, fmt.Errorf("udpstat: a UDP socket is a %T", pc)
	}
	if err := conn.SetReadBuffer(buffer); err != nil {
		return -1, fmt.Errorf("udpstat: ask for a receive buffer of %d bytes: %w", buffer, err)
	}
	return receiveBuffer(conn)
}

// readUDP reads the two lines "Udp: names" and "Udp: numbers".
func readUDP(path string) (UDP, error) {
	f, err := os.Open(path)
	if err != nil {
		return UDP{}, fmt.Errorf("udpstat: %w", err)
	}
	defer f.Close()
	var names []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		return parseUDP(names, fields, path)
	}
	return UDP{}, fmt.Errorf("udpstat: %s has no Udp lines", path)
}

func parseUDP(names, values []string, path string) (UDP, error) {
	var u UDP
	for i, name := range names[:min(len(names), len(values))] {
		to := map[string]*int64{"InDatagrams": &u.InDatagrams, "InErrors": &u.InErrors,
			"RcvbufErrors": &u.RcvbufErrors}[name]
		if to == nil {
			continue
		}
		n, err := strconv.ParseInt(values[i], 10, 64)
		if err != nil {
			return u, fmt.Errorf("udpstat: %s: %s: %w", path, name, err)
		}
		*to = n
	}
	return u, nil
}
