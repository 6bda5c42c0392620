package statsd

import (
	"bytes"
	"math"
	"strconv"
)

// kind is what a line turned out to be.
type kind uint8

const (
	counter   kind = iota
	otherType      // a gauge, a timer, a set, …: not for us, and no mistake
	malformed
)

// maxTotal is the most that one line may count: above 2^53 a float64 skips
// whole numbers, and nobody was asked so often since the last line.
const maxTotal = 1 << 53

// parseValue reads what stands behind the name of a line:
//
//	value[:value…]|type[|@rate][|#tags][|…]
//
// and gives the sum of the values, scaled by the sample rate. Tags and sections
// that it does not know are skipped. Anything but a finite decimal number that
// is not negative, and a rate in (0, 1], makes the whole line malformed.
func parseValue(rest []byte) (total float64, k kind) {
	values, rest, ok := bytes.Cut(rest, []byte{'|'})
	if !ok {
		return 0, malformed
	}
	typ, rest, more := bytes.Cut(rest, []byte{'|'})
	if k := kindOf(typ); k != counter {
		return 0, k
	}
	rate := 1.0
	if more {
		var ok bool
		if rate, ok = parseRate(rest); !ok {
			return 0, malformed
		}
	}
	for more := true; more; {
		var v []byte
		v, values, more = bytes.Cut(values, []byte{':'})
		f, ok := parseNumber(v)
		if !ok {
			return 0, malformed
		}
		total += f
	}
	if total /= rate; total > maxTotal {
		return 0, malformed
	}
	return total, counter
}

func kindOf(typ []byte) kind {
	switch string(typ) {
	case "c":
		return counter
	case "g", "ms", "h", "s", "d", "m", "set":
		return otherType
	}
	return malformed
}

// parseRate finds the sample rate among the sections behind the type.
func parseRate(sections []byte) (rate float64, ok bool) {
	rate = 1
	seen := false
	for more := true; more; {
		var s []byte
		s, sections, more = bytes.Cut(sections, []byte{'|'})
		if len(s) == 0 {
			return 0, false
		}
		if s[0] != '@' {
			continue
		}
		r, ok := parseNumber(s[1:])
		if !ok || seen || r <= 0 || r > 1 {
			return 0, false
		}
		rate, seen = r, true
	}
	return rate, true
}

// parseNumber reads a decimal number that is finite and not negative, with or
// without a fraction and an exponent. strconv alone would also take "inf",
// "nan", hexadecimal numbers and a sign.
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
