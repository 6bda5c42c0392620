package gateways

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
)

// serveOlderAgent speaks SPOE (SPOP 2.0) as an agent that denies every request and quotes a key of 48,000 bytes.
func serveOlderAgent(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			r := bufio.NewReader(conn)
			for {
				var size [4]byte
				if _, err := io.ReadFull(r, size[:]); err != nil {
					return
				}
				frame := make([]byte, binary.BigEndian.Uint32(size[:]))
				if _, err := io.ReadFull(r, frame); err != nil {
					return
				}
				if _, err := conn.Write(olderAgentAnswer(frame)); err != nil {
					return
				}
			}
		}()
	}
}

// olderAgentAnswer is the answer to a frame: to the greeting a greeting, and to a notification a denial.
func olderAgentAnswer(frame []byte) []byte {
	const hello, agentHello, ack, isString, isUint32, setVariable, transaction = 1, 101, 103, 8, 3, 1, 2
	text := func(b []byte, s string) []byte {
		if n := len(s); n < 240 {
			b = append(b, byte(n))
		} else { // the low four bits, then seven bits in each byte
			b = append(b, byte(n)|240)
			for n = (n - 240) >> 4; n >= 128; n = (n - 128) >> 7 {
				b = append(b, byte(n)|128)
			}
			b = append(b, byte(n))
		}
		return append(b, s...)
	}
	set := func(b []byte, name string) []byte { return text(append(b, setVariable, 3, transaction), name) }
	b := []byte{0, 0, 0, 0, ack, 0, 0, 0, 1}
	if frame[0] == hello {
		b[4] = agentHello
		b = text(append(text(append(b, 0, 0), "version"), isString), "2.0")
		b = append(append(text(b, "max-frame-size"), isUint32), 0xfc, 0xf0, 0x1e) // 65,532
		b = text(append(text(b, "capabilities"), isString), "pipelining")
	} else {
		end := 5
		for range 2 { // the numbers of stream and frame
			if frame[end] >= 240 {
				for end++; frame[end] >= 128; {
					end++
				}
			}
			end++
		}
		b = append(b, frame[5:end]...)
		b = append(set(b, "allowed"), 1) // a boolean that is false
		b = text(append(set(b, "key"), isString), strings.Repeat("%21", 16_000))
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
