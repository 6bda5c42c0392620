package detect

import (
	"math"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
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

// defaultMaxHot is the maximum number of hot keys of a rule without max_hot.
const defaultMaxHot = 10_000

// compiledRule holds the conditions of a rule as counts over its window. It is immutable.
type compiledRule struct {
	rule   *rules.Rule
	window int64 // seconds
	// perRate is the count in the window that stands for a rate of 1.
	perRate float64
	rate    thresholds // of the rate criterion
	least   int64      // the lowest count at which any criterion can make a key hot
	maxHot  int
}

// thresholds are the limits of one criterion. A key becomes hot when its count reaches hot, and may cool while it is
// below release, which is from 1 to hot. The value never is a count that no key reaches.
type thresholds struct{ hot, release int64 }

var noThresholds = thresholds{never, never}

// thresholdsFor returns the thresholds of a criterion for a required count, which need not be a whole number. Both are
// at least 1, so that a key without traffic always cools.
func (r *compiledRule) thresholdsFor(product float64) thresholds {
	hot := max(1, rules.LeastCount(product))
	return thresholds{hot, min(hot, max(1, rules.LeastCount(product*r.rule.Hot.ReleaseRatio)))}
}

func compileRule(rule *rules.Rule) *compiledRule {
	h := rule.Hot
	r := &compiledRule{
		rule: rule, window: max(1, wholeSeconds(h.Window)), rate: noThresholds, least: never, maxHot: h.MaxHot,
	}
	r.perRate = float64(r.window * rule.Cost.Unit())
	if h.Rate > 0 {
		r.rate = r.thresholdsFor(rule.CountOf(h.Rate))
	}
	if least := rule.MinCount(); least > 0 { // else there is no criterion, and hot keys cool
		r.least = least
	}
	if r.maxHot <= 0 {
		r.maxHot = defaultMaxHot
	}
	return r
}

// maxListed returns the maximum number of keys of the rule that a shard lists as candidates. It exceeds maxHot, the
// number that is published, so that the lightest candidates are not searched for after every new key.
func (r *compiledRule) maxListed() int { return 2*r.maxHot + 64 }

// rateThreshold returns the count at which a key that is listed but not hot is judged again before the next Tick, or -1
// if the rule has no rate above its lowest threshold.
func (r *compiledRule) rateThreshold() int64 {
	if r.rate.hot > r.least && r.rate != noThresholds {
		return r.rate.hot
	}
	return -1
}

// hasMovingThresholds reports whether requests for other keys, or the past, move thresholds of the rule.
func (r *compiledRule) hasMovingThresholds() bool {
	return r.rule.Hot.Share > 0 || r.rule.Hot.Surge > 0
}

// criteriaThresholds returns the thresholds of each criterion, where total is the number of requests of the key's
// resource in the window, and past is the count that the key had by its baseline, or -1 if it is unknown.
func (r *compiledRule) criteriaThresholds(total int64, past float64) (n [criteria]thresholds) {
	n = [criteria]thresholds{r.rate, noThresholds, noThresholds}
	h := &r.rule.Hot
	if h.Share > 0 {
		n[byShare] = r.thresholdsFor(max(r.rule.CountOf(h.MinRate), h.Share*float64(total)))
	}
	if h.Surge > 0 && past >= 0 {
		n[bySurge] = r.thresholdsFor(max(r.rule.CountOf(h.MinRate), h.Surge*past))
	}
	return n
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
