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

// criterion is one of the ways to be hot.
type criterion int

const (
	byRate criterion = iota
	byShare
	bySurge
	criteria // the number of criteria
)

// never is a count that no key reaches.
const never = math.MaxInt64

// maxListed is the maximum number of hot keys of a rule without max_hot.
const maxListed = 10_000

// compiledRule holds the conditions of a rule as counts over its window. It is immutable.
type compiledRule struct {
	rule   *rules.Rule
	window int64      // seconds
	rate   thresholds // of the rate criterion
	least  int64      // the lowest count at which any criterion can make a key hot
	maxHot int
}

// thresholds are the limits of one criterion. A key becomes hot when its count reaches hot, and may cool while it is
// below release, which is from 1 to hot. The value never is a count that no key reaches.
type thresholds struct{ hot, release int64 }

var noThresholds = thresholds{never, never}

// thresholdsFor returns the thresholds of a criterion for a required count, which need not be a whole number. Both are
// at least 1, so that a key without traffic always cools.
func (t *compiledRule) thresholdsFor(product float64) thresholds {
	hot := max(1, rules.LeastCount(product))
	return thresholds{hot, min(hot, max(1, rules.LeastCount(product*t.rule.Hot.ReleaseRatio)))}
}

func compileRule(r *rules.Rule) *compiledRule {
	h := r.Hot
	t := &compiledRule{
		rule: r, window: max(1, wholeSeconds(h.Window)), rate: noThresholds, least: never, maxHot: h.MaxHot,
	}
	if h.Rate > 0 {
		t.rate = t.thresholdsFor(h.RateCount())
	}
	if least := h.MinCount(); least > 0 { // else there is no criterion, and hot keys cool
		t.least = least
	}
	if t.maxHot <= 0 {
		t.maxHot = maxListed
	}
	return t
}

// maxListed returns the maximum number of keys that a shard lists. It exceeds the number that is published, so that the
// lightest keys are not searched for after every new key.
func (t *compiledRule) maxListed() int { return 2*t.maxHot + 64 }

// rateThreshold returns the count at which a key that is listed but not hot is judged again before the next Tick, or -1
// if the rule has no rate above its lowest threshold.
func (t *compiledRule) rateThreshold() int64 {
	if t.rate.hot > t.least && t.rate != noThresholds {
		return t.rate.hot
	}
	return -1
}

// criteriaThresholds returns the thresholds of each criterion, where total is the number of requests of the key's
// resource in the window, and past is the count that the key had by its baseline, or -1 if it is unknown.
func (t *compiledRule) criteriaThresholds(total int64, past float64) (n [criteria]thresholds) {
	n = [criteria]thresholds{t.rate, noThresholds, noThresholds}
	h := &t.rule.Hot
	if h.Share > 0 {
		n[byShare] = t.thresholdsFor(max(h.MinRateCount(), h.Share*float64(total)))
	}
	if h.Surge > 0 && past >= 0 {
		n[bySurge] = t.thresholdsFor(max(h.MinRateCount(), h.Surge*past))
	}
	return n
}

// hysteresis records by which criteria a key is hot and, for each, since when its count is below the release threshold.
// A zero time means that it is not below.
type hysteresis struct {
	on         [criteria]bool
	below      [criteria]time.Time
	why        string // names of the criteria that are on, or were on last
	thresholds        // the lowest of all criteria at the last update
}

func (h *hysteresis) isHot() bool { return h.on != [criteria]bool{} }

// update applies the count of the current window at time at.
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
	h.nameCriteria()
}

// updateBefore applies the count of the window that ended at time at, the beginning of the current second. If that
// count reaches a criterion, the key is hot by it, and cools from time at unless sum, the count of the current window,
// has reached the release threshold in now. A criterion that is cooling cools from time at if count reached its release
// threshold.
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
	h.nameCriteria()
}

// expire ends the criteria that have cooled by now, and reports whether any criterion is left. Cooling begins at time
// whole at the earliest, because counts may be missing before.
func (h *hysteresis) expire(now, whole time.Time, cool time.Duration) bool {
	for i, below := range h.below {
		if h.on[i] && !below.IsZero() && now.Sub(hotset.Later(below, whole)) >= cool {
			h.on[i], h.below[i] = false, time.Time{}
		}
	}
	h.nameCriteria()
	return h.isHot()
}

func (h *hysteresis) nameCriteria() {
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

// routes maps a key to the index of the rule that judges it. It is immutable.
type routes struct {
	byName   map[string]int
	catchAll int // -1: no catch-all
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

// ruleFor returns the index of the rule that judges key, or -1 if no rule does.
func (r *routes) ruleFor(key hottype.Key) int {
	name := resourceOf(key)
	if strings.HasPrefix(name, aliasPrefix) {
		name = decodeResource(name[len(aliasPrefix):])
	}
	if i, ok := r.byName[name]; ok {
		return i
	}
	return r.catchAll
}

// resourceOf returns the part of the key that selects its rule. For an alias it is still in HP1 form and has its
// prefix.
func resourceOf(key hottype.Key) string {
	if strings.HasPrefix(string(key), aliasPrefix) {
		resource, _, _ := strings.Cut(string(key), ".")
		return resource
	}
	return key.Resource()
}

// decodeResource decodes a resource from HP1 form, or returns "" if it is a hash. It lets canon read it as part of a
// metric without parameters.
func decodeResource(hp1 string) string {
	names := canon.Names{Prefix: "x", Style: canon.StyleHP1}
	key, err := names.Parse([]byte("x." + hp1 + ".hot_param.Ze"))
	if err != nil || strings.HasPrefix(string(key), aliasPrefix) {
		return ""
	}
	return key.Resource()
}
