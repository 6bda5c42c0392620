package detect

import (
	"math"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// criterion is one way to be hot.
type criterion int

const (
	byRate criterion = iota
	byShare
	bySurge
	criteria // how many there are
)

// never is a count that no key reaches.
const never = math.MaxInt64

// maxListed is how many keys a rule without max_hot lists.
const maxListed = 10_000

// compiledRule are what a rule asks of a key, as counts over its window. Not changed
// once made.
type compiledRule struct {
	rule   *rules.Rule
	window int64      // seconds
	rate   thresholds // of the rate
	least  int64      // the least count at which a key can be hot by any criterion
	maxHot int
}

// thresholds are what a criterion asks of a count: it makes a key hot at hot, which
// may cool under cool, 1 to hot. Never is a count that no key reaches.
type thresholds struct{ hot, release int64 }

var noThresholds = thresholds{never, never}

// thresholds gives the limits of a criterion whose threshold is a product. A limit is 1 at
// least, so that a key without traffic always cools.
func (t *compiledRule) thresholds(product float64) thresholds {
	hot := max(1, rules.LeastCount(product))
	return thresholds{hot, min(hot, max(1, rules.LeastCount(product*t.rule.Hot.ReleaseRatio)))}
}

func compileRule(r *rules.Rule) *compiledRule {
	h := r.Hot
	t := &compiledRule{rule: r, window: max(1, seconds(h.Window)), rate: noThresholds, least: never, maxHot: h.MaxHot}
	if h.Rate > 0 {
		t.rate = t.thresholds(h.RateCount())
	}
	if least := h.MinCount(); least > 0 { // else no criterion; what is hot cools
		t.least = least
	}
	if t.maxHot <= 0 {
		t.maxHot = maxListed
	}
	return t
}

// listed is how many keys a shard lists at most. It is more than are published,
// so that the lightest are not looked for after every key that comes.
func (t *compiledRule) listed() int { return 2*t.maxHot + 64 }

// rateThreshold is the count at which a key that is listed but not hot is looked at
// again before the next Tick; never for rules of one criterion.
func (t *compiledRule) rateThreshold() int64 {
	if t.rate.hot > t.least && t.rate != noThresholds {
		return t.rate.hot
	}
	return -1
}

// criteriaThresholds are the thresholds of each criterion when the resource of a key has so many
// requests in the window and the key itself used to have so many.
func (t *compiledRule) criteriaThresholds(total int64, past float64) (n [criteria]thresholds) {
	n = [criteria]thresholds{t.rate, noThresholds, noThresholds}
	h := &t.rule.Hot
	if h.Share > 0 {
		n[byShare] = t.thresholds(max(h.MinRateCount(), h.Share*float64(total)))
	}
	if h.Surge > 0 && past >= 0 {
		n[bySurge] = t.thresholds(max(h.MinRateCount(), h.Surge*past))
	}
	return n
}

// hysteresis is by which criteria a key is hot, and since when it is below the
// release threshold of each; zero: it is not.
type hysteresis struct {
	on         [criteria]bool
	below      [criteria]time.Time
	why        string // the names of those that are on, or that were on last
	thresholds        // the least ones of all criteria, as of the last look
}

func (h *hysteresis) any() bool { return h.on != [criteria]bool{} }

// update takes note of a count at a time.
func (h *hysteresis) update(needs *[criteria]thresholds, sum int64, at time.Time) {
	h.thresholds = noThresholds
	for i, need := range needs {
		h.thresholds = thresholds{min(h.hot, need.hot), min(h.release, need.release)}
		switch {
		case sum >= need.hot:
			h.on[i], h.below[i] = true, time.Time{}
		case !h.on[i]:
		case sum >= need.release:
			h.below[i] = time.Time{}
		case h.below[i].IsZero():
			h.below[i] = at
		}
	}
	h.name()
}

// updateBefore takes note of a count over the window that ended at a time, which is the beginning of this second, where
// the window that ends now has a sum: a criterion that it reaches cools from that time on, unless it is reached now.
func (h *hysteresis) updateBefore(needs *[criteria]thresholds, count int64, at time.Time, now *[criteria]thresholds,
	sum int64) {
	for i, need := range needs {
		switch {
		case count >= need.hot && !h.on[i]:
			if h.on[i] = true; sum < now[i].release {
				h.below[i] = at
			}
		case h.on[i] && count >= need.release && !h.below[i].IsZero() && h.below[i].Before(at):
			h.below[i] = at
		}
	}
	h.name()
}

// expire ends the criteria that have cooled by now, and reports whether one is
// left. No cooling begins before counts were whole.
func (h *hysteresis) expire(now, whole time.Time, cool time.Duration) bool {
	for i, below := range h.below {
		if h.on[i] && !below.IsZero() && now.Sub(hotset.Later(below, whole)) >= cool {
			h.on[i], h.below[i] = false, time.Time{}
		}
	}
	h.name()
	return h.any()
}

func (h *hysteresis) name() {
	names := [1 << criteria]string{"", "rate", "share", "rate+share", "surge", "rate+surge", "share+surge",
		"rate+share+surge"}
	set := 0
	for i, on := range h.on {
		if on {
			set |= 1 << i
		}
	}
	if set > 0 {
		h.why = names[set]
	}
}

// aliasPrefix begins the keys whose metric name cannot be decoded.
const aliasPrefix = "!hp1:"

// routes say which rule judges a key, by its position. Not changed once made.
type routes struct {
	byName   map[string]int
	catchAll int // -1: none
}

func newRoutes(set *rules.Set) *routes {
	r := &routes{byName: make(map[string]int), catchAll: -1}
	for i, rule := range set.Rules {
		r.byName[rule.Name] = i
		if rule.IsCatchAll() {
			r.catchAll = i
		}
	}
	return r
}

// of is the rule that judges key, -1 where none does.
func (r *routes) of(key hottype.Key) int {
	name := resourceOf(key)
	if strings.HasPrefix(name, aliasPrefix) {
		name = decodeResource(name[len(aliasPrefix):])
	}
	if i, ok := r.byName[name]; ok {
		return i
	}
	return r.catchAll
}

// resourceOf is the part of the key that says which rule judges it; for an
// alias, still in HP1 form and with its prefix.
func resourceOf(key hottype.Key) string {
	if strings.HasPrefix(string(key), aliasPrefix) {
		resource, _, _ := strings.Cut(string(key), ".")
		return resource
	}
	return key.Resource()
}

// decodeResource reads the HP1 form of a resource; "" where it is a hash. It
// lets canon read it as part of a metric without parameters.
func decodeResource(hp1 string) string {
	names := canon.Names{Prefix: "x", Style: canon.StyleHP1}
	key, err := names.Parse([]byte("x." + hp1 + ".hot_param.Ze"))
	if err != nil || strings.HasPrefix(string(key), aliasPrefix) {
		return ""
	}
	return key.Resource()
}
