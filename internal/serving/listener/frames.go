package listener

import "encoding/binary"

// Types of HTTP/2 frames, and their flags (RFC 9113, 6).
const (
	frameData    = 0
	frameHeaders = 1
	frameReset   = 3
	frameGoAway  = 7

	flagEndStream  = 1
	flagEndHeaders = 4
	flagPadded     = 8
)

// frame is the header of an HTTP/2 frame.
type frame struct {
	kind, flags byte
	stream      uint32
	size        int  // of the payload
	padding     int  // bytes of the payload of a DATA frame that are not data
	code        byte // the low byte of the error code of RST_STREAM
}

// dataSize returns the number of bytes of a body in the frame.
func (f *frame) dataSize() int { return max(0, f.size-f.padding) }

// endsStream reports whether its sender sends nothing more on the stream.
func (f *frame) endsStream() bool {
	return f.flags&flagEndStream != 0 && (f.kind == frameData || f.kind == frameHeaders)
}

// frames finds the headers of frames in a stream of bytes.
type frames struct {
	head [13]byte // the header, and the first bytes of the payload of some frames
	have int      // bytes of head
	skip int      // bytes of the payload that are still to come
}

// isBetween reports whether the last frame is complete and the next has not begun.
func (f *frames) isBetween() bool { return f.skip == 0 && f.have == 0 }

// scanFrames calls f for each frame whose header, with the part of the payload that it needs, ends in p.
func (f *frames) scanFrames(p []byte, each func(*frame)) {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:f.neededBytes()], p)
		p = p[n:]
		if f.have += n; f.have == f.neededBytes() {
			h := f.parse()
			f.skip, f.have = h.size-(f.have-9), 0
			each(&h)
		}
	}
}

// neededBytes returns the number of bytes to read before the frame can be parsed. They include the length of the
// padding of padded DATA, and the error code of RST_STREAM.
func (f *frames) neededBytes() int {
	size := f.payloadSize()
	switch {
	case f.have < 9 || size == 0:
		return 9
	case f.head[3] == frameData && f.head[4]&flagPadded != 0:
		return 10
	case f.head[3] == frameReset && size == 4:
		return 13
	}
	return 9
}

func (f *frames) payloadSize() int { return int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2]) }

func (f *frames) parse() frame {
	h := frame{kind: f.head[3], flags: f.head[4], size: f.payloadSize(),
		stream: binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31)}
	switch f.have {
	case 10:
		h.padding = 1 + int(f.head[9])
	case 13:
		h.code = f.head[12]
	}
	return h
}
