package respcache

import (
	"math"
	"strconv"
	"time"
)

func ageField(age time.Duration) []string { return []string{strconv.Itoa(int(age / time.Second))} }

// hitField is the Cache-Status (RFC 9211) of an answer from the cache.
func hitField(a *answer, now time.Time, waited bool) []string {
	ttl := math.Floor((a.fresh - a.resident(now)).Seconds()) // so that what is stale has one below 0
	s := "hotparam; hit; ttl=" + strconv.Itoa(int(ttl))
	if waited {
		s += "; detail=collapsed"
	}
	return []string{s}
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
