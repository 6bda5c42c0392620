package accesslog

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// Costs holds the costs of a request. A cost that is not in its line is -1.
type Costs struct {
	// Time is the time of the upstream, or else of the whole request, which includes the time in which it waited and in
	// which its client read the response.
	Time time.Duration
	// Bytes is the length of the response.
	Bytes int64
	// Cost is the number that the upstream wrote in a field of its response.
	Cost float64
	// Left is true if the client left before the response.
	Left bool
}

// NoCosts is the Costs of a line without any.
var NoCosts = Costs{Time: -1, Bytes: -1, Cost: -1}

const (
	statusDenied = 429 // RFC 6585
	statusLeft   = 499 // by which nginx logs that the client left before the response
)

// rawCosts holds the texts of the costs of a line.
type rawCosts struct {
	upstream, upstreamMS, upstreamNS, seconds, ms, ns, bytes, field string
	// duration is in seconds if it has a point, as Caddy writes it, else in milliseconds.
	duration string
}

// setTimers reads the timers of HAProxy, TR/Tw/Tc/Tr/Ta: Tr is the time of the server until its response begins.
func (r *rawCosts) setTimers(text string) {
	if t := strings.Split(text, "/"); len(t) == 5 {
		r.upstreamMS = t[3]
	}
}

// parse returns the costs of a line. A denied request did not cost its upstream anything, so that its costs are
// unknown.
func (r *rawCosts) parse(status int) Costs {
	c := NoCosts
	if status == statusDenied {
		return c
	}
	if strings.ContainsAny(r.duration, ".e") {
		r.seconds = cmp.Or(r.seconds, r.duration)
	} else {
		r.ms = cmp.Or(r.ms, r.duration)
	}
	for _, t := range [...]struct {
		text string
		unit time.Duration
	}{
		{r.upstream, time.Second}, {r.upstreamMS, time.Millisecond}, {r.upstreamNS, 1}, {r.seconds, time.Second},
		{r.ms, time.Millisecond}, {r.ns, 1},
	} {
		if f, ok := sumOf(t.text); ok && f*float64(t.unit) < math.MaxInt64/2 {
			c.Time = time.Duration(f * float64(t.unit))
			break
		}
	}
	c.Bytes, c.Left = parseSize(r.bytes), status == statusLeft
	if f, ok := sumOf(r.field); ok {
		c.Cost = f
	}
	return c
}

// parseSize returns the length of a response, or -1 if the text is no length.
func parseSize(text string) int64 {
	if text == "" || text == "-" { // saves the error
		return -1
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// sumOf returns the sum of the numbers in a text: nginx writes a time for each upstream that it tried, separated by
// commas and colons, and "-" for one without a time. Numbers may end with "s", as in Google Cloud.
func sumOf(text string) (sum float64, ok bool) {
	if text == "" || text == "-" {
		return 0, false
	}
	if f, err := strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64); err == nil {
		return f, f >= 0 && !math.IsInf(f, 0)
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
		f, err := strconv.ParseFloat(part, 64)
		switch {
		case part == "-":
		case err != nil || !(f >= 0) || math.IsInf(f, 0):
			return 0, false
		default:
			sum, ok = sum+f, true
		}
	}
	return sum, ok
}
