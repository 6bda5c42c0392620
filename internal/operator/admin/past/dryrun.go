package past

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// dryRunSpan is the time before now for which new rules are tried.
	dryRunSpan = 10 * time.Minute
	// maxDryKeys bounds the keys of the response, and so the work.
	maxDryKeys = 500
	// dryRunSlices is the number of parts of a second, which is smaller than for a single key.
	dryRunSlices = 10
)

// Further states of a key after a change of rules.
const (
	uncounted = "uncounted" // its requests count under other keys, which the history lacks
	recounted = "recounted" // its requests count under other keys or by another cost, unknown to the history
)

// DryRun is the effect that new rules would have had on the keys of the last minutes. A key whose rule, limit and
// override stay the same is not tried, because nothing would have changed for it.
type DryRun struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Minutes int       `json:"minutes"` // for which the history has data
	// Keys are the keys for which something changes, of each cost those with the greatest peaks first.
	Keys      []DryKey `json:"keys"`
	Unchanged int      `json:"unchanged"`
	Truncated bool     `json:"truncated"` // there were more keys than are tried
	// Windows is the effect of the windows of clients, or nil if neither the old nor the new rules have any.
	Windows *WindowTrials `json:"windows,omitempty"`
}

// DryKey is a key under the present rules and the new ones. States are the hottest of all minutes.
type DryKey struct {
	Key          hottype.Key  `json:"key"`
	Href         string       `json:"href"`
	Cost         hottype.Cost `json:"cost,omitempty"` // of Peak
	Peak         float64      `json:"peak"`
	Before       string       `json:"before"`
	After        string       `json:"after"`
	DeniedBefore float64      `json:"denied_before"`
	DeniedAfter  float64      `json:"denied_after"`
}

// DryRun tries rules, with the live overrides, on the last minutes of the history.
func (s *Service) DryRun(ctx context.Context, next *rules.Set, live []rules.Override) (any, error) {
	if err := s.requireHistory(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	now := s.cfg.Now()
	past, err := s.cfg.History.Read(ctx, history.Query{From: now.Add(-dryRunSpan), To: now, Limit: maxHistory})
	if err != nil {
		return nil, unreadHistory(err)
	}
	set := s.cfg.Rules()
	before := &rulesAt{set, rules.NewOverrides(set.Overrides, live), now}
	after := &rulesAt{next, rules.NewOverrides(next.Overrides, live), now}
	d, err := dryRunOn(ctx, past, before, after)
	if err != nil {
		return nil, unreadHistory(err)
	}
	traffic := s.cfg.Traffic(now)
	d.Windows = tryWindows(&traffic, before, after)
	return d, nil
}

type rulesAt struct {
	set       *rules.Set
	overrides *rules.Overrides
	now       time.Time
}

type keyPolicy struct {
	rule     *rules.Rule // nil: no rule counts it
	limit    rules.Limit
	override rules.Override
}

// policyOf returns the policy of a key that the rule of that name counted.
func (r *rulesAt) policyOf(key hottype.Key, rule string) (t keyPolicy) {
	if t.rule = r.set.RuleOf(key, rule); t.rule != nil {
		t.limit = t.rule.LimitFor(key)
	}
	if o := r.overrides.Find([]byte(key), r.now); o != nil {
		t.override = rules.Override{Action: o.Action, Rate: o.Rate, Burst: o.Burst}
	}
	return t
}

// countsAlike reports whether the requests of a key of rule a still count under it by rule b, and for the same.
func (r *rulesAt) countsAlike(a, b *rules.Rule, key hottype.Key) bool {
	if a.Name != b.Name || a.Cost != b.Cost || a.AllQuery != b.AllQuery || !reflect.DeepEqual(a.Match, b.Match) ||
		!reflect.DeepEqual(a.Params, b.Params) || !reflect.DeepEqual(a.Ignore, b.Ignore) ||
		!reflect.DeepEqual(a.ParseAs, b.ParseAs) {
		return false
	}
	if !a.IsCatchAll() {
		return true
	}
	// A new rule may take requests that the catch-all counted, whose key is the target.
	matches := r.set.Match(&hottype.Request{Method: http.MethodGet, Target: string(key)}, &rules.Scratch{})
	return len(matches) == 0 || slices.ContainsFunc(matches, func(m rules.Match) bool { return m.Rule == b })
}

func dryRunOn(ctx context.Context, past *history.Answer, now, next *rulesAt) (*DryRun, error) {
	a := &DryRun{From: past.From, To: past.To, Minutes: len(past.Totals), Keys: []DryKey{}, Truncated: past.Truncated}
	minutes := map[history.ID][]history.KeyMinute{}
	for _, k := range past.Keys {
		id := history.ID{Key: k.Key, Cost: k.Cost}
		minutes[id] = append(minutes[id], k)
	}
	for id, list := range minutes {
		key := id.Key
		before, after := now.policyOf(key, list[0].Rule), next.policyOf(key, list[0].Rule)
		if before.rule != nil && after.rule != nil && next.countsAlike(before.rule, after.rule, key) &&
			reflect.DeepEqual(before.rule.Hot, after.rule.Hot) && reflect.DeepEqual(before.limit, after.limit) &&
			before.override == after.override {
			a.Unchanged++
			continue
		}
		d := DryKey{Key: key, Cost: id.Cost, Href: web.KeyHref(key), Before: history.Cold}
		for i := range list {
			d.Peak = max(d.Peak, list[i].Peak)
			if list[i].Denied.IsKnown() { // the limit of a cold key denied nothing
				d.DeniedBefore += float64(list[i].Denied)
			}
			d.Before = hotterState(d.Before, list[i].State)
		}
		a.Keys = append(a.Keys, d)
	}
	slices.SortFunc(a.Keys, func(a, b DryKey) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Peak, a.Peak), cmp.Compare(a.Key, b.Key))
	})
	if len(a.Keys) > maxDryKeys {
		a.Keys, a.Truncated = a.Keys[:maxDryKeys], true
	}
	for i := range a.Keys {
		d := &a.Keys[i]
		list := minutes[history.ID{Key: d.Key, Cost: d.Cost}]
		if err := errors.Join(ctx.Err(), d.evaluateMinutes(ctx, list, now.policyOf(d.Key, list[0].Rule),
			next)); err != nil {
			return nil, err
		}
	}
	tried := len(a.Keys)
	a.Keys = slices.DeleteFunc(a.Keys, func(d DryKey) bool {
		return d.Before == d.After && d.DeniedBefore == d.DeniedAfter
	})
	a.Unchanged += tried - len(a.Keys)
	return a, nil
}

func (d *DryKey) evaluateMinutes(ctx context.Context, list []history.KeyMinute, before keyPolicy, next *rulesAt) error {
	after := next.policyOf(d.Key, list[0].Rule)
	switch {
	case after.rule == nil:
		d.After = uncounted
		return nil
	case before.rule == nil || d.Cost != before.rule.Cost || !next.countsAlike(before.rule, after.rule, d.Key):
		d.After = recounted
		return nil
	}
	d.After = history.Cold
	var held []Second
	for i := range list {
		state := stateBy(before.rule.Hot, after.rule.Hot, &list[i])
		d.After = hotterState(d.After, state)
		if state == history.Hot || after.override.Action == rules.ActionLimit {
			held = append(held, secondsOf(&list[i])...)
		}
		if after.override.Action == rules.ActionBlock {
			for _, s := range secondsOf(&list[i]) {
				d.DeniedAfter += float64(s.Rate)
			}
		}
	}
	d.DeniedAfter = math.Round(d.DeniedAfter)
	spec, holds := after.limitSpec()
	if !holds {
		return nil
	}
	tried, err := Simulate(ctx, spec, held, dryRunSlices)
	if err != nil {
		return err
	}
	d.DeniedAfter = tried.Denied
	return nil
}

func (p keyPolicy) limitSpec() (limit.Spec, bool) {
	switch p.override.Action {
	case rules.ActionLimit:
		return p.override.Spec(p.rule.Cost), true
	case "", rules.ActionCache:
		return p.limit.Spec, p.limit.Set && p.limit.Spec.Limit > 0 && p.limit.Mode != hottype.ModeShadow
	}
	return limit.Spec{}, false
}

// stateBy returns the state of a key in a minute by new criteria. By its share or a surge a key is as hot as it was,
// because the history lacks the data to judge that again.
func stateBy(before, after rules.HotCriteria, k *history.KeyMinute) string {
	byOther := k.State != history.Cold && (before.Rate == 0 || k.Peak < before.Rate) &&
		before.Share == after.Share && before.Surge == after.Surge && before.MinRate == after.MinRate
	switch {
	case !byOther && (after.Rate == 0 || k.Peak < after.Rate):
		return history.Cold
	case k.Clients > 0 && k.Clients < int64(after.MinClients),
		k.State == history.Loop && after.MinClients >= before.MinClients:
		return history.Loop
	}
	return history.Hot
}

// secondsOf returns the seconds of a minute in which a key was requested, with its mean requests in each. The number of
// these seconds is known for keys that limiters report. The rate of a rule that counts another cost is not of requests,
// so that its requests are known only if limiters report them; they are distributed over the minute.
func secondsOf(k *history.KeyMinute) []Second {
	n, rate, decided := 60, k.Rate, float64(k.Allowed+k.Denied)
	switch isKnown := decided > 0; {
	case !k.Cost.IsRequests() && !isKnown:
		return nil
	case !k.Cost.IsRequests():
		rate = decided / 60
	case isKnown && rate > 0:
		n = min(n, int(math.Ceil(decided/rate)))
	}
	list := make([]Second, n)
	for i := range list {
		list[i] = Second{At: uint32(k.Minute.Unix()) + uint32(i), Rate: float32(rate), Allowed: Unknown,
			Denied: Unknown}
		if !k.Cost.IsRequests() {
			list[i].Mean = int64(k.Rate * float64(k.Cost.Unit()) / rate)
		}
	}
	return list
}

func hotterState(a, b string) string {
	order := []string{history.Cold, history.Loop, history.Hot}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}
