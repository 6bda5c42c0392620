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
	return peak < 1.8*mean || peak < mean+5*math.Sqrt(mean)+leastThreshold && mean >= 1
}

// chooseThreshold returns the threshold of a candidate with the given number of different values, in the shortest
// window in which the numbers are large enough. apart is true if the keys are values of one parameter, of which one can
// stand apart from the others.
func chooseThreshold(keys []*measured, values float64, span time.Duration, apart bool) threshold {
	var best threshold
	for i := range windows {
		t := thresholdInWindow(keys, i, values, span, apart)
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
	for i := range windows {
		if best = thresholdInWindow(keys, i, values, span, apart); best.requests >= usefulThreshold {
			break
		}
	}
	return best
}

// thresholdInWindow finds the widest gap between the scores of the highest keys. Steady keys do not make a gap unless
// they are dominant, and do not end the search. Without a gap the threshold is well above all scores of the log.
func thresholdInWindow(keys []*measured, index int, values float64, span time.Duration, apart bool) threshold {
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
	t.ratio = leastGap
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
		case ratio < t.ratio || score(i) < leastMargin*leastThreshold:
		case bursts > 0 && steady-dominant > bursts*int(oneIf(apart)): // popular values, which are always requested
		case bursts == 0 && (dominant < steady || dominant > maxDominant):
		case bursts == 0 && (ratio < dominantGap || score(i) < usefulThreshold):
		default:
			t.viral, t.ratio = i+1, ratio
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

// The bounds of learning per-IP windows.
const (
	leastOrdinary  = 200
	quantileNeeds  = 5000 // clients; with fewer a quantile of 99.9 % is meaningless
	personFactor   = 1.5
	least1s        = 10
	least60s       = 60
	quantilePeople = 0.999
)

// perIP holds the proposed per-IP windows, and the reasons for them.
type perIP struct {
	none     string // why no windows are proposed, or ""
	ordinary int    // number of clients that they were learned from
	of       string // "99.9 % of them are" or "all of them are"
	top1s    int64  // the highest rate of these clients, requests a second
	top60s   int64  // the highest rate of these clients, requests a minute
	fixed    int64  // requests a second
	sliding  int64  // requests a minute
	above    int    // number of ordinary clients that were above a window
	guess    string // why the windows are a guess, or "" if they are not
	widened  bool
	loops    int // number of loops and scanners
	stopped  int // number of loops and scanners above a window
}

// isOrdinary reports whether limits must not deny a client's requests: a person, or an address that many people share.
func isOrdinary(k kind) bool { return k == person || k == sharedAddress }

func (v *visitors) proposeWindows(proxied, clock string) perIP {
	var second, minute []int64
	ofOrdinary := int64(0)
	for _, c := range v.all {
		if isOrdinary(v.kindOf(c)) {
			ofOrdinary += c.requests
			second, minute = append(second, int64(c.peak1s)), append(minute, int64(c.peak60s))
		}
	}
	p := perIP{ordinary: len(second)}
	switch {
	case proxied != "":
		p.none = proxied
	case clock != "":
		p.none = clock
	case len(second) < leastOrdinary:
		p.none = fmt.Sprintf("the log has %d ordinary clients; %d are needed to describe the behaviour of people",
			len(second), leastOrdinary)
	}
	if p.none != "" {
		return p
	}
	at := len(second) - 1
	p.of = "all of them"
	if len(second) >= quantileNeeds {
		at, p.of = int(quantilePeople*float64(at)), "99.9 % of them"
	}
	switch {
	case v.agents*20 < v.requests:
		p.guess = "the log names no user agents, so robots count as people"
	case 10*ofOrdinary < v.requests:
		p.guess = "nine of ten requests are by robots"
	}
	slices.Sort(second)
	slices.Sort(minute)
	p.top1s, p.top60s = second[at], minute[at]
	p.fixed = max(least1s, roundUp(personFactor*float64(p.top1s)))
	p.sliding = max(least60s, roundUp(personFactor*float64(p.top60s)))
	p.countAbove(v)
	return p
}

// widenWindows raises the windows by half. It is called if they deny too many requests of clients that are no loops.
func (p *perIP) widenWindows(v *visitors) {
	p.fixed, p.sliding = roundUp(personFactor*float64(p.fixed)), roundUp(personFactor*float64(p.sliding))
	p.widened = true
	p.countAbove(v)
}

func (p *perIP) countAbove(v *visitors) {
	p.above, p.loops, p.stopped = 0, 0, 0
	for _, c := range v.all {
		over := int64(c.peak1s) > p.fixed || int64(c.peak60s) > p.sliding
		switch k := v.kindOf(c); {
		case isOrdinary(k) && over:
			p.above++
		case k == loop || k == scanner:
			p.loops++
			if over {
				p.stopped++
			}
		}
	}
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
