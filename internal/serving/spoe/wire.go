package spoe

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
)

// Types of frames.
const (
	frameHello           = 1
	frameDisconnect      = 2
	frameNotify          = 3
	frameAgentHello      = 101
	frameAgentDisconnect = 102
	frameAck             = 103
)

// flagFin marks a frame that is whole. The agent does not offer fragmentation, so all frames are whole.
const flagFin = 1

// Types of data. The upper four bits of the byte are flags; a true boolean has flagTrue.
const (
	typeNull   = 0
	typeBool   = 1
	typeInt32  = 2
	typeUint32 = 3
	typeInt64  = 4
	typeUint64 = 5
	typeIPv4   = 6
	typeIPv6   = 7
	typeString = 8
	typeBinary = 9
	flagTrue   = 0x10
)

// maxFrame is the length of the longest frame in bytes. HAProxy's frames are as long as its buffers, 16 KiB.
const maxFrame = 64 << 10

// minFrame is the lowest bound that a peer may set for the length of frames. HAProxy has the same.
const minFrame = 256

// frameHead is the greatest length of the part of a frame before its payload: type, flags, and two numbers.
const frameHead = 1 + 4 + 10 + 10

var (
	errFrame     = errors.New("spoe: malformed frame")
	errFrameSize = errors.New("spoe: the peer's frames are too short")
)

// frame is one frame. Its payload is valid until the next is read into the same buffer.
type frame struct {
	kind    byte
	flags   uint32
	stream  uint64
	id      uint64
	payload []byte
}

// readFrame reads a frame into buf, which grows to at most maxFrame.
func readFrame(r io.Reader, buf []byte) (frame, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, buf, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 7 || n > maxFrame { // type, flags, two numbers of one byte
		return frame{}, buf, errFrame
	}
	if uint32(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return frame{}, buf, err
	}
	f := frame{kind: buf[0], flags: binary.BigEndian.Uint32(buf[1:5])}
	d := decoder{buf[5:], nil}
	f.stream, f.id = d.readNumber(), d.readNumber()
	f.payload = d.b
	return f, buf, d.err
}

// appendFrame appends a whole frame.
func appendFrame(b []byte, kind byte, stream, id uint64, payload []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, kind, 0, 0, 0, flagFin)
	b = appendNumber(appendNumber(b, stream), id)
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// appendNumber appends a number in HAProxy's variable length: below 240 one byte, else the low
// four bits in the first and seven bits in each that follows.
func appendNumber(b []byte, n uint64) []byte {
	if n < 240 {
		return append(b, byte(n))
	}
	b = append(b, byte(n)|240)
	for n = (n - 240) >> 4; n >= 128; n = (n - 128) >> 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}

func appendText(b []byte, s string) []byte { return append(appendNumber(b, uint64(len(s))), s...) }

func appendString(b []byte, s string) []byte { return appendText(append(b, typeString), s) }

func appendUint32(b []byte, n uint32) []byte { return appendNumber(append(b, typeUint32), uint64(n)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, typeBool|flagTrue)
	}
	return append(b, typeBool)
}

// decoder reads a payload. After an error everything that it returns is empty.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() { d.b, d.err = nil, errFrame }

func (d *decoder) readByte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) readBytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

func (d *decoder) readNumber() uint64 {
	n := uint64(d.readByte())
	if n < 240 {
		return n
	}
	for shift := 4; ; shift += 7 {
		c := d.readByte()
		n += uint64(c) << shift
		if c < 128 || d.err != nil {
			return n
		}
		if shift > 60 {
			d.fail()
			return 0
		}
	}
}

func (d *decoder) readText() string { return string(d.readBytes(d.readNumber())) }

// value is one piece of typed data: text is set for text and addresses, number for numbers.
type value struct {
	kind   byte
	text   string
	number uint64 // 0 or 1 for a boolean
}

func (d *decoder) readValue() value {
	c := d.readByte()
	v := value{kind: c & 0x0f}
	switch v.kind {
	case typeNull:
	case typeBool:
		if c&flagTrue != 0 {
			v.number = 1
		}
	case typeInt32, typeUint32, typeInt64, typeUint64:
		v.number = d.readNumber()
	case typeIPv4, typeIPv6:
		n := uint64(4)
		if v.kind == typeIPv6 {
			n = 16
		}
		if a, ok := netip.AddrFromSlice(d.readBytes(n)); ok {
			v.text = a.String()
		}
	case typeString, typeBinary:
		v.text = d.readText()
	default:
		d.fail()
	}
	return v
}
