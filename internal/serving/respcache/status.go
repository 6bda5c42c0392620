package respcache

import (
	"strconv"
	"time"
)

// The Cache-Status field (RFC 9211) and Age, ready for the values that nearly all answers
// have.
var (
	ages  = table(0, 60, strconv.Itoa)
	hits  = table(-60, 60, hitStatus)
	waits = table(-60, 60, func(n int) string { return hitStatus(n) + "; detail=collapsed" })
)

func hitStatus(ttl int) string { return "hotparam; hit; ttl=" + strconv.Itoa(ttl) }

// values is one field value for each whole number from a first one on.
type values struct {
	first int
	text  [][]string
	make  func(int) string
}

func table(first, last int, text func(int) string) *values {
	v := &values{first: first, make: text}
	for n := first; n <= last; n++ {
		v.text = append(v.text, []string{text(n)})
	}
	return v
}

func (v *values) of(n int) []string {
	if i := n - v.first; i >= 0 && i < len(v.text) {
		return v.text[i]
	}
	return []string{v.make(n)}
}

func ageField(age time.Duration) []string { return ages.of(int(age / time.Second)) }

// wholeSeconds rounds down, so that what is stale has a ttl below 0.
func wholeSeconds(d time.Duration) int {
	n := int(d / time.Second)
	if d < 0 && d%time.Second != 0 {
		n--
	}
	return n
}

// hitField is the Cache-Status of an answer from the cache.
func hitField(a *answer, now time.Time, waited bool) []string {
	ttl := wholeSeconds(a.fresh - a.resident(now))
	if waited {
		return waits.of(ttl)
	}
	return hits.of(ttl)
}

// forwarded is the Cache-Status of an answer that the handler gave: fwd is "miss", "stale"
// or "bypass".
func forwarded(fwd, detail string, stored bool) []string {
	s := "hotparam; fwd=" + fwd
	if stored {
		s += "; stored"
	}
	if detail != "" {
		s += "; detail=" + detail
	}
	return []string{s}
}
