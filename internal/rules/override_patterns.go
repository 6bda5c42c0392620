package rules

import (
	"math"
	"strings"
	"time"
)

// fewPatterns is the number of patterns that are compared one after the other sooner than an index finds them.
const fewPatterns = 32

// indexPatterns fills byGram: each pattern is found by the three bytes of its text that the fewest patterns contain.
func (o *Overrides) indexPatterns() {
	grams := func(e *entry, f func([3]byte)) {
		for text := range strings.SplitSeq(e.override.Key, "*") {
			for i := range max(len(text)-2, 0) {
				f([3]byte([]byte(text[i : i+3])))
			}
		}
	}
	uses := map[[3]byte]int{}
	for _, e := range o.patterns {
		grams(e, func(g [3]byte) { uses[g]++ })
	}
	o.byGram = map[[3]byte][]int{}
	for i, e := range o.patterns {
		best, least := [3]byte{}, math.MaxInt
		grams(e, func(g [3]byte) {
			if uses[g] < least {
				best, least = g, uses[g]
			}
		})
		if least < math.MaxInt && len(o.patterns) > fewPatterns {
			o.byGram[best] = append(o.byGram[best], i)
		} else {
			o.ungrammed = append(o.ungrammed, i)
		}
	}
}

// findPattern returns the first pattern that matches a key and holds, or nil if there is none.
func (o *Overrides) findPattern(key []byte, now time.Time) *Override {
	best := len(o.patterns)
	try := func(list []int) {
		for _, i := range list {
			if i >= best {
				return
			}
			if e := o.patterns[i]; e.glob.Match(key) && e.holds(now) {
				best = i
			}
		}
	}
	try(o.ungrammed)
	if len(o.byGram) > 0 {
		for i := range max(len(key)-2, 0) {
			try(o.byGram[[3]byte(key[i:])])
		}
	}
	if best == len(o.patterns) {
		return nil
	}
	return &o.patterns[best].override
}
