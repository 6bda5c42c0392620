package accesslog

import (
	"strings"
	"time"
)

// maxSecond is the end of the year 9999. Greater numbers are milliseconds or smaller units, not seconds.
const maxSecond = 253402300799

// parseCLF parses "17/May/2015:10:05:03 +0200", with an optional fraction after the seconds. It does not call
// time.Parse, which costs more than the rest of a line.
func parseCLF(s string) (second int64, nanos int32, ok bool) {
	if len(s) < 26 || s[2] != '/' || s[6] != '/' || s[11] != ':' || s[14] != ':' || s[17] != ':' {
		return 0, 0, false
	}
	head, zone := s[:20], s[20:]
	if zone[0] == '.' {
		i := 1
		for i < len(zone) && isDigit(zone[i]) {
			i++
		}
		nanos, ok = parseFraction(zone[1:i])
		if !ok {
			return 0, 0, false
		}
		zone = zone[i:]
	}
	offset, ok := parseZone(zone)
	if !ok {
		return 0, 0, false
	}
	local, ok := parseLocal(head)
	return local - offset, nanos, ok && local > offset
}

// parseLocal parses "17/May/2015:10:05:03", whose separators are known to be in place, as if it were UTC.
func parseLocal(s string) (int64, bool) {
	day, year := parseNumber(s[0:2]), parseNumber(s[7:11])
	hour, minute, sec := parseNumber(s[12:14]), parseNumber(s[15:17]), parseNumber(s[18:20])
	month := monthNumber(s[3:6])
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if month == 0 || year < 1 || day < 1 || date.Day() != day {
		return 0, false
	}
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 || sec < 0 || sec > 60 {
		return 0, false
	}
	return date.Unix() + int64(hour*3600+minute*60+sec), true
}

// parseZone parses " +0200" and returns seconds east of UTC.
func parseZone(s string) (int64, bool) {
	if len(s) != 6 || s[0] != ' ' || (s[1] != '+' && s[1] != '-') {
		return 0, false
	}
	hours, minutes := parseNumber(s[2:4]), parseNumber(s[4:6])
	if hours < 0 || hours > 14 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	east := int64(hours*3600 + minutes*60)
	if s[1] == '-' {
		east = -east
	}
	return east, true
}

// monthNumber returns the number of a month, or 0 if the name is not a month. Servers write English names whatever
// their locale.
func monthNumber(s string) int {
	i := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", s)
	if i%3 != 0 {
		return 0
	}
	return i/3 + 1
}

// parseNumber parses decimal digits, and returns -1 if there is any other byte.
func parseNumber(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) {
			return -1
		}
		n = 10*n + int(s[i]-'0')
	}
	return n
}

// parseUnix parses unix seconds, whole or with a decimal fraction. It rejects zero and times after the year 9999,
// because they are not times of a request.
func parseUnix(s string) (second int64, nanos int32, ok bool) {
	i := 0
	for ; i < len(s) && isDigit(s[i]); i++ {
		if second = 10*second + int64(s[i]-'0'); second > maxSecond {
			return 0, 0, false
		}
	}
	if i == 0 || second == 0 {
		return 0, 0, false
	}
	if i == len(s) {
		return second, 0, true
	}
	if s[i] != '.' {
		return 0, 0, false
	}
	nanos, ok = parseFraction(s[i+1:])
	return second, nanos, ok
}

// parseFraction parses the digits after a decimal point as nanoseconds; finer digits are cut off.
func parseFraction(s string) (nanos int32, ok bool) {
	unit := int32(100_000_000)
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) {
			return 0, false
		}
		nanos += int32(s[i]-'0') * unit
		unit /= 10
	}
	return nanos, len(s) > 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
