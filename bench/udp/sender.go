package main

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/net/ipv4"
)

const (
	keys     = 20_000
	datagram = 1432 // bytes, as hotparam's sender and most others fill
	burst    = 32   // datagrams passed to the kernel at once
	prefix   = "hp.news.topic.hot_param."
	firstID  = 1_000_000
)

// load is one way of sending.
type load struct {
	name string
	full bool
	// pace is the number of packets a second, or 0 for as many as possible.
	pace int
	// busy is true if the cores have other work.
	busy bool
}

// sent holds the amounts sent.
type sent struct {
	packets, lines uint64
	took           time.Duration
}

// packets returns the datagrams of a load, in the order in which they are sent. Each has the same number of lines.
func (l load) packets() (packets [][]byte, lines int) {
	line := func(i int) string {
		return prefix + "id=" + strconv.Itoa(firstID+i*7919%keys) + "-lang=en:1|c"
	}
	lines = 1
	if l.full {
		lines = datagram / (len(line(0)) + 1)
	}
	for i := 0; i < keys; {
		var p []byte
		for n := range lines {
			if n > 0 {
				p = append(p, '\n')
			}
			p = append(p, line(i)...)
			i++
		}
		packets = append(packets, p)
	}
	return packets, lines
}

// send sends for d, in bursts spread over the time if the load has a pace.
func (l load) send(port int, d time.Duration) (sent, error) {
	conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return sent{}, fmt.Errorf("udp: %w", err)
	}
	defer conn.Close()
	packets, lines := l.packets()
	out := ipv4.NewPacketConn(conn)
	batch := make([]ipv4.Message, burst)
	var s sent
	began := time.Now()
	for next := 0; ; {
		past := time.Since(began)
		if past >= d {
			break
		}
		if l.pace > 0 && float64(s.packets) > past.Seconds()*float64(l.pace) {
			time.Sleep(100 * time.Microsecond) // may be a millisecond: a tenth of the buffer
			continue
		}
		for i := range batch {
			batch[i].Buffers = [][]byte{packets[next]}
			next = (next + 1) % len(packets)
		}
		n, err := out.WriteBatch(batch, 0)
		s.packets += uint64(max(n, 0))
		if err != nil {
			return s, fmt.Errorf("udp: send: %w", err)
		}
	}
	s.took, s.lines = time.Since(began), s.packets*uint64(lines)
	return s, nil
}
