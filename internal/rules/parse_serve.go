package rules

import (
	"math"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// DefaultServe is how answers are cached where nothing else is said.
func DefaultServe() *hottype.Serve {
	return &hottype.Serve{
		TTL: time.Second, Stale: 10 * time.Second, StaleIfError: time.Minute,
		Vary: []string{"Accept-Encoding"}, MaxBody: 1 << 20, Wait: 500 * time.Millisecond,
	}
}

// The most that a rule may ask of a cache.
const (
	maxServe     = 24 * time.Hour
	maxServeWait = time.Minute
	maxServeBody = 1 << 30
)

// serve reads how hot keys of a rule are answered from the cache.
func (v value) serve() *hottype.Serve {
	s := DefaultServe()
	v.mapping(fields{
		"ttl":            func(v value) { s.TTL = v.duration(0, maxServe, time.Millisecond) },
		"stale":          func(v value) { s.Stale = v.duration(0, maxServe, time.Millisecond) },
		"stale_if_error": func(v value) { s.StaleIfError = v.duration(0, maxServe, time.Millisecond) },
		"wait":           func(v value) { s.Wait = v.duration(0, maxServeWait, time.Millisecond) },
		"vary":           func(v value) { s.Vary = v.varying() },
		"cookies":        func(v value) { s.StripCookies = v.word("deny", "strip") == "strip" },
		"max_body":       func(v value) { s.MaxBody = v.bytes(1, maxServeBody) },
	})
	return s
}

// private are fields whose answers belong to one client each.
var private = []string{"Authorization", "Cookie"}

// varying reads the header fields by which answers may differ.
func (v value) varying() []string {
	names := []string{}
	v.list(func(v value) {
		name := textproto.CanonicalMIMEHeaderKey(v.name(headerName))
		switch {
		case name == "":
		case name == "*":
			v.fail(`"*" is no field: an answer that varies by everything is never kept`)
		case slices.Contains(private, name):
			v.fail("answers that differ by %s are private and never kept", name)
		case slices.Contains(names, name):
			v.fail("%s is set twice", name)
		}
		names = append(names, name)
	})
	slices.Sort(names)
	return names
}

// bytes reads an amount of memory between two bounds.
func (v value) bytes(low, high int64) int64 {
	s, ok := v.scalar("a number of bytes such as 65536, 64KiB or 1MiB", "!!int", "!!str")
	if !ok {
		return 0
	}
	n, err := parseBytes(s)
	if err != nil || n < low || n > high {
		v.fail("%q is not between %d and %d bytes, such as 65536, 64KiB or 1MiB", cut(s), low, high)
		return 0
	}
	return n
}

func parseBytes(s string) (int64, error) {
	unit := int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if number, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = strings.TrimSpace(number), 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n > math.MaxInt64/unit {
		return 0, strconv.ErrRange
	}
	return n * unit, err
}
