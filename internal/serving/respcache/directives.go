package respcache

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// directives are those of the Cache-Control of an answer that a shared cache has to know.
// A lifetime is -1 where the directive is absent, and 0 where it cannot be read: RFC 9111
// section 4.2.1 wants such an answer to be stale.
type directives struct {
	noStore, noCache, private, mustRevalidate, mustUnderstand bool
	maxAge, sMaxAge                                           time.Duration
	staleWhileRevalidate, staleIfError                        time.Duration // RFC 5861
}

const absent = time.Duration(-1)

// maxSeconds is what longer lifetimes are cut to, as RFC 9111 section 1.2.2 says.
const maxSeconds = math.MaxInt32

func parseDirectives(lines []string) directives {
	d := directives{maxAge: absent, sMaxAge: absent, staleWhileRevalidate: absent, staleIfError: absent}
	for _, line := range lines {
		for line != "" {
			var name, value string
			name, value, line = nextDirective(line)
			d.add(strings.ToLower(name), value)
		}
	}
	return d
}

// add notes a directive. A field list as in private="X-Name" is taken for the whole answer,
// which is allowed and safe.
func (d *directives) add(name, value string) {
	switch name {
	case "no-store":
		d.noStore = true
	case "no-cache":
		d.noCache = true
	case "private":
		d.private = true
	case "must-understand":
		d.mustUnderstand = true
	case "must-revalidate", "proxy-revalidate":
		d.mustRevalidate = true
	case "max-age":
		d.maxAge = shorter(d.maxAge, seconds(value))
	case "s-maxage":
		d.sMaxAge = shorter(d.sMaxAge, seconds(value))
	case "stale-while-revalidate":
		d.staleWhileRevalidate = shorter(d.staleWhileRevalidate, seconds(value))
	case "stale-if-error":
		d.staleIfError = shorter(d.staleIfError, seconds(value))
	}
}

// nextDirective cuts the first directive off a line. A comma within a quoted string does
// not end it.
func nextDirective(line string) (name, value, rest string) {
	end, quoted := len(line), false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			end, rest = i, line[i+1:]
		}
		if end != len(line) {
			break
		}
	}
	name, value, _ = strings.Cut(line[:end], "=")
	return strings.Trim(name, " \t"), strings.Trim(value, " \t"), rest
}

// seconds reads a delta-seconds, also where it is quoted, which RFC 9111 section 5.2 tells
// recipients to accept.
func seconds(s string) time.Duration {
	if n := len(s); n >= 2 && s[0] == '"' && s[n-1] == '"' {
		s = s[1 : n-1]
	}
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n = maxSeconds // only digits: too many of them
	}
	return time.Duration(min(n, maxSeconds)) * time.Second
}

// shorter is the shorter of two lifetimes of which the first may be absent: of two that
// contradict each other the stricter one holds.
func shorter(a, b time.Duration) time.Duration {
	if a == absent {
		return b
	}
	return min(a, b)
}

// lifetime is for how long an answer is fresh from its beginning, absent where it does not
// say.
func (d *directives) lifetime(h http.Header, date time.Time) time.Duration {
	switch lines := h["Expires"]; {
	case d.sMaxAge != absent:
		return d.sMaxAge
	case d.maxAge != absent:
		return d.maxAge
	case len(lines) > 0:
		at, err := http.ParseTime(lines[0])
		if err != nil || len(lines) > 1 {
			return 0 // "0" and other ways to say that it has expired
		}
		return max(at.Sub(date), 0)
	}
	return absent
}

// ageOf is the Age that an answer came with, 0 without one. Of a list the first member
// counts (RFC 9111 section 5.1). Of what is no number, of several lines, and of a value that
// is set twice because a proxy copied it, its age is unknown: such a
// answer is taken for as old as can be.
func ageOf(h http.Header) time.Duration {
	lines := h["Age"]
	if len(lines) == 0 {
		return 0
	}
	first, rest, _ := strings.Cut(lines[0], ",")
	if len(lines) > 1 || first == "" || strings.Trim(first, "0123456789") != "" || strings.TrimSpace(rest) == first {
		return maxSeconds * time.Second
	}
	return seconds(first)
}
