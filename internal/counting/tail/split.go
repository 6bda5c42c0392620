package tail

import "bytes"

// splitter makes lines of at most max bytes out of pieces of text. Of a longer
// line nothing is handed on: its beginning may read as the request for another
// page. Lines that lie within one piece are not copied.
type splitter struct {
	max   int
	emit  func(line []byte)
	stats *counters

	part []byte // the beginning of a line, at most max bytes
	long bool   // there was more of it
}

func (s *splitter) feed(b []byte) {
	s.stats.bytes.Add(uint64(len(b)))
	for {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		if !ok {
			s.keep(b)
			return
		}
		b = rest
		if len(s.part) == 0 && !s.long && len(line) <= s.max {
			s.line(line)
			continue
		}
		s.keep(line)
		s.end()
	}
}

func (s *splitter) keep(b []byte) {
	if len(b) > s.max-len(s.part) {
		b, s.long = nil, true
	}
	s.part = append(s.part, b...)
}

// end emits the line begun, if there is one.
func (s *splitter) end() {
	switch {
	case s.long:
		s.stats.tooLong.Add(1)
	case len(s.part) > 0:
		s.line(s.part)
	}
	s.forget()
}

// forget drops the line begun.
func (s *splitter) forget() { s.part, s.long = s.part[:0], false }

func (s *splitter) line(line []byte) {
	s.stats.lines.Add(1)
	s.emit(bytes.TrimSuffix(line, []byte{'\r'}))
}
