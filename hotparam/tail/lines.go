package tail

import "bytes"

// splitter cuts a stream into lines of at most max bytes. Pieces may come in
// any sizes.
type splitter struct {
	max     int
	part    []byte // of a line whose end has not come
	tooLong bool   // the rest of this line is thrown away
	lines   uint64
	cut     uint64
}

// feed takes the next piece of the stream and calls fn for each line that is
// complete, without its end. The line is valid until fn returns.
func (s *splitter) feed(piece []byte, fn func([]byte)) {
	for {
		i := bytes.IndexByte(piece, '\n')
		if i < 0 {
			s.keep(piece)
			return
		}
		switch {
		case s.tooLong || len(s.part)+i > s.max:
			s.cut++
		case len(s.part) == 0:
			s.hand(piece[:i], fn)
		default:
			s.hand(append(s.part, piece[:i]...), fn)
		}
		s.part, s.tooLong = s.part[:0], false
		piece = piece[i+1:]
	}
}

// keep remembers the beginning of a line.
func (s *splitter) keep(piece []byte) {
	if s.tooLong || len(s.part)+len(piece) > s.max {
		s.part, s.tooLong = s.part[:0], true
		return
	}
	s.part = append(s.part, piece...)
}

// end hands on a last line that has no end of its own.
func (s *splitter) end(fn func([]byte)) {
	if s.tooLong {
		s.cut++
	} else if len(s.part) > 0 {
		s.hand(s.part, fn)
	}
	s.part, s.tooLong = s.part[:0], false
}

func (s *splitter) hand(line []byte, fn func([]byte)) {
	s.lines++
	fn(bytes.TrimSuffix(line, []byte{'\r'}))
}
