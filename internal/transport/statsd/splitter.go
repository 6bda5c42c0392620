package statsd

import "bytes"

// splitter finds the lines of a stream, which arrive in pieces. It holds one
// unfinished line, and of a line that is too long nothing: the rest of it is
// passed over. What it gives does not depend on how the stream was cut.
//
// Not safe for concurrent use.
type splitter struct {
	max   int    // longest line, without its end
	buf   []byte // of a fixed size, more than max+1
	n     int    // bytes at its beginning: a line without its end
	pass  bool   // the line under way is too long
	lines func([]byte)
	cut   func(line []byte)
}

// newSplitter makes a splitter. Lines gets whole lines with line feeds between
// them, cut the beginning of a line that is too long, or that the stream's end
// has cut off. Neither may keep them.
func newSplitter(longest int, lines, cut func([]byte)) *splitter {
	return &splitter{max: longest, buf: make([]byte, max(2*longest, 16<<10)), lines: lines, cut: cut}
}

// room is where the next bytes are to be read to; it is never empty.
func (s *splitter) room() []byte { return s.buf[s.n:] }

// filled takes n bytes that were read to room.
func (s *splitter) filled(n int) {
	p := s.buf[:s.n+n]
	if s.pass {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			return // s.n is 0
		}
		s.pass, p = false, p[end+1:]
	}
	if last := bytes.LastIndexByte(p, '\n'); last >= 0 {
		s.lines(p[:last])
		p = p[last+1:]
	}
	s.n = copy(s.buf, p)
	if s.n > s.max+1 { // one more for a carriage return
		s.cut(s.buf[:s.n])
		s.n, s.pass = 0, true
	}
}

// end takes what is left. Whole says that the sender has ended the stream, so
// the last line is one even without a line feed.
func (s *splitter) end(whole bool) {
	switch {
	case s.n == 0:
	case whole:
		s.lines(s.buf[:s.n])
	default:
		s.cut(s.buf[:s.n])
	}
	s.n = 0
}
