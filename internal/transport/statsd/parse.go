package statsd

import (
	"bytes"
	"math"
	"strconv"
)

// kind is the kind of a line.
type kind uint8

const (
	counter     kind = iota
	setMember        // of a set
	ignoredType      // a gauge, a timer, …: valid, but not counted
	malformed
)

// value is the part of a line after the name.
type value struct {
	kind    kind
	fault   fault   // of a malformed line
	total   float64 // of a counter, scaled by the sample rate
	stamped bool    // a counter that carries its own second
	second  int64
	member  []byte // of a set; a part of the line
}

// parseValue parses the part of a line after the name:
//
//	value[:value…]|type[|@rate][|#tags][|Tseconds][|…]
//
// It returns the sum of the values, scaled by the sample rate. Tags and unknown sections (DogStatsD's container "c:",
// external data "e:" and future ones) are skipped. Anything but a finite decimal number that is not negative, a rate in
// (0, 1] and whole seconds makes the whole line malformed, and so does a sum above most. A set has one member, which
// may contain colons.
func parseValue(rest []byte, most int64) value {
	values, rest, ok := bytes.Cut(rest, []byte{'|'})
	if !ok {
		return malformedValue(noType)
	}
	typ, rest, more := bytes.Cut(rest, []byte{'|'})
	v := value{kind: kindOf(typ)}
	switch v.kind {
	case setMember:
		v.member = values
		return v
	case ignoredType:
		return v
	case malformed:
		return malformedValue(badType)
	}
	rate := 1.0
	if more {
		var f fault
		if rate, f = v.parseSections(rest); f != noFault {
			return malformedValue(f)
		}
	}
	for more := true; more; {
		var part []byte
		part, values, more = bytes.Cut(values, []byte{':'})
		f, ok := parseNumber(part)
		if !ok {
			return malformedValue(badNumber)
		}
		v.total += f
	}
	if v.total /= rate; v.total > float64(most) {
		return malformedValue(tooMany)
	}
	return v
}

func malformedValue(f fault) value { return value{kind: malformed, fault: f} }

func kindOf(typ []byte) kind {
	switch string(typ) {
	case "c":
		return counter
	case "s":
		return setMember
	case "g", "ms", "h", "d", "m", "set":
		return ignoredType
	}
	return malformed
}

// parseSections reads the sample rate and the time after the type, each of which may occur once.
func (v *value) parseSections(rest []byte) (rate float64, f fault) {
	rate = 1
	rated := false
	for more := true; more; {
		var s []byte
		s, rest, more = bytes.Cut(rest, []byte{'|'})
		switch {
		case len(s) == 0:
			return 0, badRate
		case s[0] == '@':
			r, ok := parseNumber(s[1:])
			if !ok || rated || r <= 0 || r > 1 {
				return 0, badRate
			}
			rate, rated = r, true
		case s[0] == 'T':
			second, ok := parseSecond(s[1:])
			if !ok || v.stamped {
				return 0, badTime
			}
			v.second, v.stamped = second, true
		}
	}
	return rate, noFault
}

func parseSecond(b []byte) (int64, bool) {
	n, err := strconv.ParseUint(string(b), 10, 63)
	return int64(n), err == nil && len(b) <= 18
}

// parseNumber parses a decimal number that is finite and not negative, with or without a fraction and an exponent.
// strconv alone would also accept "inf", "nan", hexadecimal numbers and a sign.
func parseNumber(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > 32 {
		return 0, false
	}
	var n uint64
	for i, c := range b {
		if c < '0' || c > '9' || i == 18 {
			return parseFloat(b)
		}
		n = n*10 + uint64(c-'0')
	}
	return float64(n), true
}

func parseFloat(b []byte) (float64, bool) {
	if b[0] == '-' {
		return 0, false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// isNotice reports whether a line is an event ("_e{") or a service check ("_sc|") of DogStatsD, whose form differs from
// metrics.
func isNotice(line []byte) bool {
	return line[0] == '_' && (bytes.HasPrefix(line, []byte("_e{")) || bytes.HasPrefix(line, []byte("_sc|")))
}

// splitter finds the lines of a stream, which arrive in pieces. It holds one unfinished line, but no part of a line
// that is too long, the rest of which it skips. Its results do not depend on how the stream was cut.
//
// A splitter is not safe for concurrent use.
type splitter struct {
	max         int    // longest line, without its end
	buf         []byte // of a fixed size, greater than max+1
	n           int    // bytes at its beginning: a line without its end
	pass        bool   // the current line is too long
	handleLines func([]byte)
	handleCut   func(line []byte)
}

// newSplitter makes a splitter. lines receives whole lines with line feeds between them. cut receives the beginning of
// a line that is too long or unfinished at the end. Neither function may keep its argument.
func newSplitter(longest int, lines, cut func([]byte)) *splitter {
	return &splitter{max: longest, buf: make([]byte, max(2*longest, 16<<10)), handleLines: lines, handleCut: cut}
}

// freeSpace returns the buffer for the next bytes; it is never empty.
func (s *splitter) freeSpace() []byte { return s.buf[s.n:] }

// processBytes processes n bytes that were read into freeSpace.
func (s *splitter) processBytes(n int) {
	p := s.buf[:s.n+n]
	if s.pass {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			return // s.n is 0
		}
		s.pass, p = false, p[end+1:]
	}
	if last := bytes.LastIndexByte(p, '\n'); last >= 0 {
		s.handleLines(p[:last])
		p = p[last+1:]
	}
	s.n = copy(s.buf, p)
	if s.n > s.max+1 { // one more for a carriage return
		s.handleCut(s.buf[:s.n])
		s.n, s.pass = 0, true
	}
}

// processRest processes the rest. If whole is true, the sender has ended the stream, so that a line feed may be
// missing.
func (s *splitter) processRest(whole bool) {
	switch {
	case s.n == 0:
	case whole:
		s.handleLines(s.buf[:s.n])
	default:
		s.handleCut(s.buf[:s.n])
	}
	s.n = 0
}

// fault is the reason why a line is malformed, or noFault.
type fault uint8

const (
	noFault fault = iota
	tooLong
	cutOff
	noName
	badName
	noType
	badType
	badNumber
	tooMany
	badRate
	badTime
	badMember
	faultCount // the number of faults
)

// reasons holds the name of each fault in metrics and its text in the log.
var reasons = [faultCount]struct{ name, says string }{
	tooLong:   {"too_long", "the line is too long"},
	cutOff:    {"cut_off", "the end of the datagram or of the connection cut the line off"},
	noName:    {"no_name", "the line has no name, or no colon behind it; it must be name:value|c"},
	badName:   {"name", "the name has our prefix and is not written as names.style says"},
	noType:    {"no_type", "the value has no type behind it; it must be value|c"},
	badType:   {"type", "the type is unknown; it must be c (a counter), s, g, ms, h, d, m or set"},
	badNumber: {"value", "a counter's value is not a decimal number from 0 on"},
	tooMany:   {"count", "the line counts more than one line may (statsd.max_count)"},
	badRate:   {"rate", "the sample rate is not one number above 0 and up to 1 behind @, or a section is empty"},
	badTime:   {"time", "the time is not one number of whole unix seconds behind T"},
	badMember: {"member", "the member of the set is not one that a sender of ours writes"},
}

// MalformedStats holds the number of lines that were malformed for one reason.
type MalformedStats struct {
	Lines uint64 `metric:"hotparam_statsd_in_malformed_lines_total" help:"Malformed lines, by reason."`
}
