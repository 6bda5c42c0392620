package rules

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/report"
)

// useSpan is the time, in seconds, after which a request is no evidence about current requests.
const useSpan = 3600

// Uses records which parameters the requests of each rule of a set had, so that a rule that cannot work is noticed: a
// rule that matches no request, or a rule whose parameters no request has. Any number of goroutines may use it. Its
// memory is bounded for any requests.
type Uses struct {
	list   []*ruleUse // in the order of the rules
	byName map[string]*ruleUse
}

// ruleUse holds the use of one rule. It is kept when the rules change and the rule has the same parameters.
type ruleUse struct {
	rule   string
	params string   // as in report.RuleUse
	names  []string // of the parameters, or nil if a key without parameters is intended

	since, matched, withParams, seconds atomic.Int64

	seen seenNames
}

// NewUses returns the uses of the rules of a set. It takes the uses of the same rules from before, which may be nil.
func NewUses(set *Set, before *Uses) *Uses {
	us := &Uses{byName: make(map[string]*ruleUse, len(set.Rules))}
	for _, r := range set.Rules {
		u := newRuleUse(r)
		if was := before.findUse(u.rule, u.params); was != nil && (was.names == nil) == (u.names == nil) {
			u = was
		}
		us.list, us.byName[u.rule] = append(us.list, u), u
	}
	return us
}

// findUse returns the use of a rule with these parameters, as in report.RuleUse, or nil if there is no such rule. A nil
// receiver has no rules.
func (us *Uses) findUse(rule, params string) *ruleUse {
	if us == nil {
		return nil
	}
	if u := us.byName[rule]; u != nil && u.params == params {
		return u
	}
	return nil
}

// newRuleUse returns an empty use of a rule. A parameter that keys leave out is seen in no key, so that a rule with
// such a parameter counts as a rule without names.
func newRuleUse(r *Rule) *ruleUse {
	u := &ruleUse{rule: r.Name}
	var all []string
	for _, q := range r.Params {
		all = append(all, q.Name)
	}
	u.params, u.names = strings.Join(all, ","), all
	if r.AllQuery || slices.ContainsFunc(r.Params, func(q Param) bool { return q.Normal.Redact == canon.RedactDrop }) {
		u.names = nil
	}
	return u
}

// Begin records the second from which on requests are seen, unless an earlier second is recorded.
func (us *Uses) Begin(second int64) {
	for _, u := range us.list {
		u.since.CompareAndSwap(0, second)
	}
}

// Record records a request of the rule at position i, with its key and its target.
func (us *Uses) Record(i int, second int64, key []byte, target string) {
	if u := us.list[i]; record(u, second, key) && u.lacksParams(second) {
		if _, query, ok := strings.Cut(target, "?"); ok {
			u.seen.add(second, query)
		}
	}
}

// RecordKey records requests for a key of the rule at position i.
func (us *Uses) RecordKey(i int, second int64, key hottype.Key) { record(us.list[i], second, key) }

// record records a request, and reports whether it may lack all parameters that the rule names. The times are from the
// caller's clock, even if it has gone back.
func record[K ~string | ~[]byte](u *ruleUse, second int64, key K) (lacks bool) {
	if was := u.matched.Load(); was != second && u.matched.CompareAndSwap(was, second) {
		u.seconds.Add(1)
	}
	if u.names == nil || u.withParams.Load() == second {
		return false
	}
	if !hasName(key, u.names) {
		return true
	}
	u.withParams.Store(second)
	return false
}

// hasName reports whether a key has one of the parameters. The parameters of an alias, which stands for a long key, are
// not known: it counts as a key that has one unless it has no parameters at all.
func hasName[K ~string | ~[]byte](key K, names []string) bool {
	text := string(key)
	if hottype.Key(text).IsAlias() {
		return hasParams(hottype.Key(text))
	}
	for pair := range strings.SplitSeq(hottype.Key(text).Params(), "&") {
		name, _, _ := strings.Cut(pair, "=")
		if name != "" && slices.Contains(names, canon.Unescape(name)) {
			return true
		}
	}
	return false
}

// lacksParams reports whether no request of the rule had any of its parameters within useSpan.
func (u *ruleUse) lacksParams(second int64) bool {
	last := u.withParams.Load()
	return u.names != nil && (last == 0 || second-last >= useSpan)
}

// Withholds reports whether a key of the rule at position i must not become hot now: it stands for requests without any
// parameter, and no request of the rule had a parameter within the last hour, so that the rule names a parameter that
// does not exist. One request that has the parameter ends this; a client that leaves the parameter out escapes nothing
// while others send it.
func (us *Uses) Withholds(i int, second int64, key hottype.Key) bool {
	return us.list[i].lacksParams(second) && !hasParams(key)
}

// hasParams reports whether a key has parameters, or a text in their place.
func hasParams(key hottype.Key) bool {
	if key.IsAlias() {
		return !strings.HasSuffix(string(key), ".Ze") // docs/protocol.md: "Ze" means no parameters
	}
	return strings.Contains(string(key), "?")
}

// Merge adds the uses that other processes, or this process before a restart, have recorded. Times after second count
// as second.
func (us *Uses) Merge(second int64, all []report.RuleUse) {
	for i := range all {
		o := &all[i]
		u := us.findUse(o.Rule, o.Params)
		if u == nil {
			continue
		}
		storeMax(&u.matched, min(o.Matched, second))
		storeMax(&u.withParams, min(o.WithParams, second))
		if since := u.since.Load(); o.Since > 0 && (since == 0 || o.Since < since) {
			u.since.Store(o.Since)
		}
	}
}

func storeMax(to *atomic.Int64, n int64) {
	for was := to.Load(); n > was && !to.CompareAndSwap(was, n); was = to.Load() {
	}
}

// maxListedUses bounds the uses that processes exchange every second. The rules behind the first ones are left out.
const maxListedUses = 100

// List returns the uses of the first maxListedUses rules.
func (us *Uses) List() []report.RuleUse {
	list := make([]report.RuleUse, min(len(us.list), maxListedUses))
	for i := range list {
		u := us.list[i]
		list[i] = report.RuleUse{Rule: u.rule, Params: u.params, Since: u.since.Load(), Matched: u.matched.Load(),
			WithParams: u.withParams.Load(), Seconds: u.seconds.Load(), Names: u.seen.list()}
	}
	return list
}
