package learn

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The minima of a threshold.
const (
	leastThreshold  = 10  // requests in the window; lower counts are mostly chance
	usefulThreshold = 30  // from here on a shorter window is better than a higher threshold
	leastGap        = 1.5 // ratio between the lowest viral score and the next
	strongGap       = 2.5 // of gaps with this ratio or a higher one the lowest is taken: there may be several peaks
	maxViral        = 50
)

// threshold is the number of requests in a window at which a value is hot, with the reasons for it.
type threshold struct {
	window   int64 // seconds
	index    int   // of the window
	requests int64
	// above and below are the first few scores of viral values, and of the others.
	above, below []float64
	viral        int // number of viral values
	ratio        float64
	least        float64 // the lowest score of a viral value
}

func (t *threshold) hasViralValues() bool { return t.viral > 0 }

// A value that is requested from the first line of the log to the last is viral if it stands out against the other
// values: by its share of all requests, and by its rate. A log of the incident itself has such values.
const (
	dominantShare = 0.1
	dominantGap   = 4
	maxDominant   = 3 // with more such values, they are popular, not viral
)

// chance is a peak that any value may have. A lower score counts as chance when the gap below a peak is measured.
const chance = leastThreshold / 2

// leastMargin is the minimum ratio of the lowest viral value to leastThreshold, because a peak that only just reaches
// leastThreshold is chance.
const leastMargin = 1.25

// isSteady reports whether the peak of a key is close to its mean, within chance: a key that is always requested has
// not gone viral.
func isSteady(m *measured, index int, span time.Duration) bool {
	mean := float64(m.total) * float64(windows[index]) / max(span.Seconds(), float64(windows[index]))
	peak := m.score[index]
	return peak < 1.8*mean || peak < mean+8*math.Sqrt(mean)+leastThreshold && mean >= 1
}

// chooseThreshold returns the threshold of a candidate with the given number of different values, in the window in
// which the most values stand out by a strong gap, or else in the shortest window in which the numbers are large
// enough. apart is true if the keys are values of one parameter, of which one can stand apart from the others. A viral
// value has at least the given number of clients in the window.
func chooseThreshold(keys []*measured, values float64, span time.Duration, apart bool, clients int64) threshold {
	var all [len(windows)]threshold
	var best threshold
	for i := range windows {
		all[i] = thresholdInWindow(keys, i, values, span, apart, clients)
		if t := &all[i]; t.ratio >= strongGap && t.requests >= usefulThreshold && t.viral > best.viral {
			best = *t
		}
	}
	if best.hasViralValues() {
		return best
	}
	for _, t := range all {
		switch {
		case t.hasViralValues() && t.requests >= usefulThreshold:
			return t
		case t.hasViralValues() || !best.hasViralValues():
			best = t
		}
	}
	if best.hasViralValues() {
		return best
	}
	for _, t := range all {
		if t.requests >= usefulThreshold {
			return t
		}
	}
	return all[len(all)-1]
}

// thresholdInWindow finds the widest gap, or the lowest strong gap, between the scores of the highest keys. Steady keys
// do not make a gap unless they are dominant, and do not end the search. Without a gap the threshold is well above all
// scores of the log.
func thresholdInWindow(keys []*measured, index int, values float64, span time.Duration, apart bool,
	clients int64) threshold {
	t := threshold{window: windows[index], index: index}
	slices.SortFunc(keys, func(a, b *measured) int {
		return cmp.Or(cmp.Compare(b.score[index], a.score[index]), cmp.Compare(a.key, b.key))
	})
	score := func(i int) float64 {
		if i < len(keys) && keys[i].score[index] >= leastScore {
			return keys[i].score[index]
		}
		return leastScore - 1 // keys that were not kept have lower scores
	}
	want := leastGap
	limit := min(maxViral, max(3, int(values/20)), len(keys))
	total, steady, dominant := int64(0), 0, 0
	for _, m := range keys {
		total += m.total
	}
	for i := 0; i < limit && score(i) >= leastThreshold; i++ {
		if isSteady(keys[i], index, span) {
			steady++
			dominant += int(oneIf(apart && float64(keys[i].total) >= dominantShare*float64(total)))
		}
		ratio := score(i) / max(score(i+1), chance)
		bursts := i + 1 - steady
		switch {
		case ratio < want || score(i) < leastMargin*leastThreshold || keys[i].who[index] < clients:
		case bursts > 0 && steady-dominant > bursts*int(oneIf(apart)): // popular values, which are always requested
		case bursts == 0 && (dominant < steady || dominant > maxDominant):
		case bursts == 0 && score(i) < dominantGap*max(score(i+1), leastScore):
		default:
			t.viral, t.ratio, want = i+1, ratio, min(ratio, strongGap)
		}
	}
	first := func(from, n int) (list []float64) {
		for i := from; i < min(len(keys), from+n); i++ {
			list = append(list, score(i))
		}
		return list
	}
	t.above, t.below = first(0, min(3, t.viral)), first(t.viral, 3)
	if t.hasViralValues() {
		above, below := score(t.viral-1), score(t.viral)
		t.least = above
		t.requests = roundBetween(max(math.Sqrt(above*below), leastThreshold), below, above)
		return t
	}
	p99 := score(int(values / 100))
	t.requests = roundBetween(max(leastThreshold, 3*p99, 2*score(0)), 0, math.MaxInt32)
	return t
}

// raiseAbove raises the threshold above the score ordinary, by leastMargin. That score is the highest of values that
// may be popular but are never viral, such as files that pages load. If the threshold would then reach the score of a
// viral value, there is no gap between the two, so that no value counts as viral.
func (t *threshold) raiseAbove(ordinary float64) {
	switch want := int64(leastMargin*ordinary) + 1; {
	case want <= t.requests:
	case float64(want) < t.least:
		t.requests = want
	default:
		t.viral = 0
	}
}

// formatGap writes the highest scores, with a bar at the threshold.
func formatGap(t *threshold) string {
	list := func(scores []float64) string {
		var all []string
		for _, s := range scores {
			all = append(all, fmt.Sprintf("%.0f", s))
		}
		return strings.Join(all, ", ")
	}
	switch above, below := list(t.above), list(t.below); {
	case above == "" && below == "":
		return "less than 3"
	case above == "":
		return below
	case below == "":
		return above + " | less than 3"
	case t.viral > len(t.above):
		return fmt.Sprintf("%s and %d more | %s", above, t.viral-len(t.above), below)
	default:
		return above + " | " + below
	}
}

// roundBetween rounds x to two digits if the result lies between low and high, and otherwise up to a whole number.
func roundBetween(x, low, high float64) int64 {
	step := math.Pow(10, max(0, math.Floor(math.Log10(x))-1))
	if n := math.Round(x/step) * step; n > low && n < high {
		return int64(n)
	}
	return int64(math.Ceil(x))
}

// roundUp returns a number that is not below x, of at most two digits, of which the second is 5 or 0, and zeros.
func roundUp(x float64) int64 {
	step := max(1, math.Pow(10, math.Floor(math.Log10(max(x, 1))))/2)
	return int64(math.Ceil(x/step) * step)
}

// The lowest limit that is proposed. Lower limits deny readers of a page that few people request, and a service that
// cannot serve as many has other needs.
const (
	leastRate  = 2 // a second
	leastBurst = 30
)

// guessLimit returns a limit for one value: at least twice the requests that the log shows to have been served.
func (r *proposed) guessLimit() (rate, burst, served int64) {
	asked := int64(0)
	for _, k := range r.keys {
		served, asked = max(served, k.asked[0]), max(asked, k.asked[r.index])
	}
	rate = max(leastRate, (2*asked+r.window-1)/r.window, (r.requests+r.window-1)/r.window)
	return rate, max(2*served, rate, leastBurst), served
}
