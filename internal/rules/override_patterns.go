package rules

import (
	"math"
	"strings"
	"time"
)

// fewPatterns is the number of patterns that are compared one after the other sooner than an index finds them.
const fewPatterns = 32

// eachGram calls f with each three bytes in sequence of the text of a pattern.
func eachGram(pattern string, f func(string)) {
	for text := range strings.SplitSeq(pattern, "*") {
		for i := range max(len(text)-2, 0) {
			f(text[i : i+3])
		}
	}
}

// rarestGram returns the three bytes of a pattern that the fewest patterns contain, or "" if it has too few bytes.
func rarestGram(pattern string, uses map[string]int) (best string) {
	least := math.MaxInt
	eachGram(pattern, func(g string) {
		if uses[g] < least {
			best, least = g, uses[g]
		}
	})
	return best
}

// findPattern returns the first pattern that matches a key and holds, or nil if there is none.
func (o *Overrides) findPattern(key []byte, now time.Time) *Override {
	if o.patterns.Len() <= fewPatterns {
		for e := range o.patterns.All() {
			if e.glob.Match(key) && e.holdsAt(now) {
				return &e.override
			}
		}
		return nil
	}
	best := firstMatch(nil, o.ungrammed, key, now)
	for i := range max(len(key)-2, 0) {
		if list, ok := o.byGram.GetBytes(key[i : i+3]); ok {
			best = firstMatch(best, list, key, now)
		}
	}
	if best == nil {
		return nil
	}
	return &best.override
}

// firstMatch returns the first pattern of a list that matches a key and holds, or best if that comes before it. best
// may be nil.
func firstMatch(best *entry, list []*entry, key []byte, now time.Time) *entry {
	for _, e := range list {
		if best != nil && compareEntries(best, e) <= 0 {
			return best
		}
		if e.glob.Match(key) && e.holdsAt(now) {
			return e
		}
	}
	return best
}
