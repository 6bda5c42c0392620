package respcache

import (
	"math"
	"strconv"
	"time"
)

func ageField(age time.Duration) []string { return []string{strconv.Itoa(int(age / time.Second))} }

// hitField returns the Cache-Status (RFC 9211) of a response from the cache.
func hitField(a *answer, now time.Time, waited bool) []string {
	ttl := math.Floor((a.fresh - a.residentTime(now)).Seconds()) // rounded down: below 0 if stale
	s := "hotparam; hit; ttl=" + strconv.Itoa(int(ttl))
	if waited {
		s += "; detail=collapsed"
	}
	return []string{s}
}

// forwardedField returns the Cache-Status of a response of the handler. fwd is "miss", "stale" or "bypass".
func forwardedField(fwd, detail string, stored bool) []string {
	s := "hotparam; fwd=" + fwd
	if stored {
		s += "; stored"
	}
	if detail != "" {
		s += "; detail=" + detail
	}
	return []string{s}
}
