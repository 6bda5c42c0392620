package rules

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
)

// Default returns the set without a configuration file: every path with its query, without Trackers, is a key, hot from
// 500 requests a second over 5 s, and a hot key is limited to 100 a second with a burst of 200.
func Default() *Set {
	return defaultSet("default", Limit{Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: time.Second,
		Burst: 200}})
}

// noMax stands for no maximum in an adaptive limit, in requests a second: more than one process answers. The sum for
// all hot keys is below the maximum of a bound.
const noMax = 100_000

// DefaultAdaptive returns Default for a program that forwards requests and so measures its upstream: the limit of hot
// keys follows the capacity of the upstream, so that it denies nothing before the upstream is saturated.
func DefaultAdaptive() *Set {
	return defaultSet("default adaptive", Limit{Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: noMax,
		Window: time.Second, Burst: noMax},
		Adaptive: &Adaptive{Min: 1, Max: noMax, Upstream: hottype.DefaultUpstream}})
}

// defaultSet returns the default rules with a limit for hot keys.
func defaultSet(hash string, amounts Limit) *Set {
	r := &Rule{Name: "*", Params: []Param{{Name: "*"}}, AllQuery: true, Ignore: Trackers(), Hot: defaultCriteria(),
		Limit: noLimit(), Malformed: MalformedLimit}
	r.Hot.Rate = 500
	r.Limit.Set, r.Limit.Spec, r.Limit.Adaptive = true, amounts.Spec, amounts.Adaptive
	s := &Set{Namespace: DefaultNamespace, Hash: hash, Rules: []*Rule{r}, QueryBounds: canon.DefaultQueryBounds()}
	if err := s.compile(); err != nil {
		panic(err) // the constants above are invalid: a mistake in this file
	}
	return s
}

// Trackers returns the parameters that advertising, analytics and cache-busters append to links, as globs: a page has
// many values of them. The default rules leave them out of keys, and learn proposes to leave them out.
func Trackers() []string {
	return []string{
		"utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "ttclid", "twclid",
		"li_fat_id", "igshid", "igsh", "mc_cid", "mc_eid", "_ga", "_gl", "_hsenc", "_hsmi", "mkt_tok", "srsltid",
		"vero_id", "oly_enc_id", "_openstat", "wickedid", "s_cid", "_branch_match_id", "ml_subscriber",
		"ml_subscriber_hash", "_",
	}
}
