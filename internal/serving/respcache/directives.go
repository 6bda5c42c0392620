package respcache

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// directives maps the names of the cache directives of a response to their lifetimes. The lifetime is 0 if a directive
// has no value or an unreadable one, because RFC 9111 section 4.2.1 wants such a response to be stale.
type directives map[string]time.Duration

const absent = time.Duration(-1)

// maxSeconds is the longest lifetime; longer ones are cut to it, as RFC 9111 section 1.2.2 demands.
const maxSeconds = math.MaxInt32

// targetedField is the field with which an upstream addresses shared caches near it, in place of Cache-Control and
// Expires (RFC 9213).
const targetedField = "Cdn-Cache-Control"

// directivesOf reads the directives of a response: of the targeted field, if it is a dictionary of RFC 9651 with a
// member, or else of Cache-Control.
func directivesOf(h http.Header) (d directives, targeted bool) {
	lines := h[targetedField]
	if len(lines) == 0 {
		return parseDirectives(h["Cache-Control"]), false
	}
	dict, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil || len(dict.Names()) == 0 {
		return parseDirectives(h["Cache-Control"]), false
	}
	d = directives{}
	for _, name := range dict.Names() {
		member, _ := dict.Get(name)
		item, _ := member.(httpsfv.Item)
		switch value := item.Value.(type) {
		case bool:
			if value {
				d.add(name, "")
			}
		case int64:
			d.add(name, strconv.FormatInt(value, 10))
		default:
			d.add(name, "unreadable")
		}
	}
	return d, true
}

func parseDirectives(lines []string) directives {
	d := directives{}
	for _, line := range lines {
		for line != "" {
			var directive string
			directive, line = httplimit.CutOutsideQuotes(line, ',')
			name, value, _ := strings.Cut(directive, "=")
			d.add(strings.ToLower(strings.Trim(name, " \t")), strings.Trim(value, " \t"))
		}
	}
	return d
}

// add adds a directive. Of two values that contradict each other, the stricter one holds. A field list as in
// private="X-Name" is taken for the whole response, which is allowed and safe.
func (d directives) add(name, value string) {
	age := parseSeconds(value)
	if before, again := d[name]; again {
		age = min(before, age)
	}
	d[name] = age
}

func (d directives) has(name string) bool { return d.lifetimeOf(name) != absent }

// lifetimeOf returns the lifetime of a directive, or absent if the response does not have it.
func (d directives) lifetimeOf(name string) time.Duration {
	if age, ok := d[name]; ok {
		return age
	}
	return absent
}

// parseSeconds reads a delta-seconds, also a quoted one, which RFC 9111 section 5.2 advises recipients to accept.
func parseSeconds(s string) time.Duration {
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

// freshnessLifetime returns how long a response is fresh from its beginning, or absent if it does not state that.
func (d directives) freshnessLifetime(h http.Header, date time.Time, targeted bool) time.Duration {
	switch lines := h["Expires"]; {
	case d.has("s-maxage"):
		return d.lifetimeOf("s-maxage")
	case d.has("max-age"):
		return d.lifetimeOf("max-age")
	case len(lines) > 0 && !targeted:
		at, err := parseDate(lines[0])
		if err != nil || len(lines) > 1 {
			return 0 // such as "0", which means that it has expired
		}
		return max(at.Sub(date), 0)
	}
	return absent
}

// ageOf returns the Age of a received response, or 0 without one. Of several values the first counts, and a value that
// is not a number is ignored (RFC 9111 section 5.1).
func ageOf(h http.Header) time.Duration {
	first, _, _ := strings.Cut(h.Get("Age"), ",")
	return parseSeconds(strings.Trim(first, " \t"))
}

// parseDate parses a date in one of the forms of HTTP. It is stricter than http.ParseTime, which accepts "2:01:18" and
// repeated spaces.
func parseDate(s string) (time.Time, error) {
	if n := len(s) - len("GMT"); n >= 0 && strings.EqualFold(s[n:], "GMT") {
		s = s[:n] + "GMT"
	}
	t, err := http.ParseTime(s)
	if err != nil {
		return time.Time{}, err
	}
	_, s, _ = strings.Cut(s, " ") // without the name of the day, which is redundant
	for _, form := range []string{"02 Jan 2006 15:04:05 GMT", "02-Jan-06 15:04:05 GMT", "Jan _2 15:04:05 2006"} {
		if strings.EqualFold(t.UTC().Format(form), s) {
			return t, nil
		}
	}
	return time.Time{}, errDate
}

var errDate = errors.New("respcache: not a date of HTTP")
