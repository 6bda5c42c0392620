package live

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

type HotKey struct {
	hottype.HotKey
	// Href is the address that returns the key. It is exact where JSON cannot be, because a path may contain bytes that
	// are not UTF-8.
	Href string `json:"href"`
	// Alias stands in the hot set for a key whose metric name would be too long. It is "" for other keys.
	Alias hottype.Key `json:"alias,omitempty"`
	Limit *limitView  `json:"limit"` // null: the key is only detected
	// RuleLimit is the limit of the rule if an override takes precedence over it, or nil.
	RuleLimit *limitView `json:"rule_limit,omitempty"`
	// LimitSource names the source of the limit: an override, the rule's value list or the rule. It is "" without a
	// limit.
	LimitSource string `json:"limit_source"`
	// Threshold is the rule's rate from which a key is hot, in units of Cost a second, or 0 if the rule has no rate.
	Threshold float64 `json:"threshold"`
	// Spark is the rate in the last minute. It is set in lists that a request asks for.
	Spark []float64 `json:"spark,omitempty"`
	// Allowed, Denied and Served are null while no limiter has reported the key. Served counts the requests that a
	// response cache answered; they are not in Allowed. WouldDeny counts the requests of Allowed that a limit in shadow
	// mode would have denied.
	Allowed   *float64      `json:"allowed_per_second"`
	Denied    *float64      `json:"denied_per_second"`
	Served    *float64      `json:"served_per_second"`
	WouldDeny *float64      `json:"would_deny_per_second"`
	Override  *changes.View `json:"override"`
	// Tried is the override in shadow mode that would decide if it were enforced, or null.
	Tried *changes.View `json:"tried"`
}

// limitView is a limit as the API shows it. Burst is the burst of a token bucket. Limit in WindowMS is the rate that is
// in force now, even for an adaptive limit, in units of Cost. Both are 0 for a limit of requests in flight.
type limitView struct {
	Algorithm limit.Algorithm `json:"algorithm"`
	Limit     int64           `json:"limit"`
	WindowMS  float64         `json:"window_ms"`
	Burst     int64           `json:"burst,omitempty"`
	Cost      hottype.Cost    `json:"cost,omitempty"` // "" counts requests
	// Adaptive is true if the rate follows the capacity of an upstream.
	Adaptive bool `json:"adaptive,omitempty"`
	// InFlight is the number of requests that may be in flight at a time, for an adaptive limit of all its hot keys
	// together. It is 0 if any number may be, or if the number is not known yet.
	InFlight int64        `json:"in_flight,omitempty"`
	Mode     hottype.Mode `json:"mode"`
	Scope    rules.Scope  `json:"scope,omitempty"`
	Text     string       `json:"text"` // "100/s, burst 200, wait 500ms"
}

// Totals describes the whole namespace in one second. The speeds are null while no limiter has reported twice.
type Totals struct {
	Requests *float64 `json:"requests_per_second"`
	// Allowed leaves out Served, the requests that response caches answered.
	Allowed *float64 `json:"allowed_per_second"`
	Served  *float64 `json:"served_per_second"`
	Denied  *float64 `json:"denied_per_second"`
	// WouldDeny is the part of Allowed that something in shadow mode would have denied.
	WouldDeny *float64 `json:"would_deny_per_second"`
	// DeniedBy splits Denied by reason.
	DeniedBy map[string]float64 `json:"denied_by"`
	HotKeys  int                `json:"hot_keys"`
	Loops    int                `json:"loops"`
	Limiters int                `json:"limiters"`
	// Overrides is the number of overrides that have not ended, as last read.
	Overrides int `json:"overrides"`
}

func viewSpec(s limit.Spec, mode hottype.Mode, scope rules.Scope) *limitView {
	return viewText(specText(s), s, mode, scope)
}

// viewText returns a limit with its description.
func viewText(text string, s limit.Spec, mode hottype.Mode, scope rules.Scope) *limitView {
	v := &limitView{Algorithm: s.Algorithm, Limit: s.Limit, WindowMS: float64(s.Window) / float64(time.Millisecond),
		Mode: mode, Scope: scope, Text: text}
	if limitcore.Spec(s).Refills() {
		v.Burst = s.Burst
	}
	if mode == hottype.ModeShadow {
		v.Text += " (shadow)"
	}
	return v
}

func specText(s limit.Spec) string {
	if limitcore.Spec(s).Even() {
		return formatRate(float64(s.Limit)/s.Window.Seconds()) + "/s" + limitcore.Spec(s).Options()
	}
	return fmt.Sprintf("%d in %ss", s.Limit, formatRate(s.Window.Seconds())) + limitcore.Spec(s).Options()
}

// viewLimit returns the limit of a rule as it is in force now, or nil if the rule only detects.
func (b adaptiveBounds) viewLimit(l rules.Limit, cost hottype.Cost) *limitView {
	if l.Set && cost != "" {
		return viewCostLimit(cost, l.Spec, l.InFlight, l.Mode, l.Scope)
	}
	if l.InFlight != nil {
		return &limitView{Algorithm: rule.AlgorithmInFlight, InFlight: l.InFlight.Limit, Mode: hottype.ModeEnforce,
			Scope: l.InFlight.Scope, Text: fmt.Sprintf("%d in flight", l.InFlight.Limit)}
	}
	if !l.Set {
		return nil
	}
	v := viewSpec(l.Spec, l.Mode, l.Scope)
	if a := l.Adaptive; a != nil {
		if bound, known := b[a.Upstream]; known {
			v = viewSpec((&adaptive.LocalLimit{UpstreamLimit: bound}).Spec(l.Spec, a), l.Mode, l.Scope)
			v.Text += " now"
			if bound.InFlightCap > 0 && bound.InFlightCap < maxShownInFlight {
				v.InFlight = int64(math.Ceil(bound.InFlightCap))
				v.Text += fmt.Sprintf(", all hot keys together %d in flight", v.InFlight)
			}
		}
		v.Adaptive = true
		v.Text += "; " + a.String()
	}
	if len(l.Priority) > 0 {
		v.Text += ", first " + strings.Join(l.Priority, ", then ")
	}
	return v
}

// maxShownInFlight bounds the caps on requests in flight that are shown. A higher cap means that the controller has not
// found one yet: it begins without a cap, and no upstream has a million requests in flight.
const maxShownInFlight = 1e6

func viewWindow(w *rules.ClientWindow) *limitView {
	v := viewSpec(w.Spec, cmp.Or(w.Mode, hottype.ModeEnforce), w.Scope)
	if w.Field != nil {
		v.Text += " by " + w.Field.Header
	}
	if w.Consistency == rules.Async {
		v.Text += " (async)"
	}
	return v
}

// effectiveLimit returns the limit of a key that is hot: the limit of its override, or else of its rule. It returns nil
// if the key has no limit.
func (b adaptiveBounds) effectiveLimit(rule *rules.Rule, o *rules.Override, key hottype.Key) *limitView {
	if o != nil && o.Action == rules.ActionLimit {
		return viewOverride(rule, o)
	}
	if o != nil && o.Action == rules.ActionExempt {
		return nil
	}
	if o != nil && o.Action == rules.ActionBlock {
		return &limitView{Mode: hottype.ModeEnforce, Text: "blocked"}
	}
	if rule == nil {
		return nil
	}
	l := rule.LimitFor(key)
	if o != nil && o.Action == rules.ActionShadow {
		l.Mode = hottype.ModeShadow
	}
	return b.viewLimit(l, rule.Cost)
}

// limitSource returns the source of a limit that is shown.
func limitSource(rule *rules.Rule, o *rules.Override, key hottype.Key, l *limitView) string {
	if l == nil {
		return ""
	}
	if o != nil && (o.Action == rules.ActionLimit || o.Action == rules.ActionBlock) {
		return "override"
	}
	if rule.HasValue(key) {
		return "values"
	}
	return "rule"
}

// formatRate formats a rate without needless digits: 100, 0.5, 33.33, 0.00012.
func formatRate(f float64) string {
	if f < 0.1 {
		return strconv.FormatFloat(f, 'g', 2, 64)
	}
	return strconv.FormatFloat(float64(int64(f*100+0.5))/100, 'f', -1, 64)
}

// heaviestEvery is the number of samples after which the keys that are not hot are read again.
const heaviestEvery = 10

// heaviestKeys returns the keys with the greatest rates, hot or not, in every tenth sample and nil in others. Only one
// sample is taken at a time.
func (s *Service) heaviestKeys() []hottype.HotKey {
	if s.cfg.Heaviest == nil || s.samples%heaviestEvery != 0 {
		return nil
	}
	return s.withFullKeys(s.cfg.Heaviest(s.cfg.HistoryKeys))
}

// recordSecond passes a second to the history. The caller holds mu.
func (s *Service) recordSecond(now time.Time, hot, loops, heaviest []hottype.HotKey) {
	if s.cfg.History == nil {
		return
	}
	sp := s.rates.totalSpeed(now)
	second := &history.Second{At: now, Allowed: history.Unknown, Denied: history.Unknown,
		DeniedBy: map[string]float64{}}
	if sp.Known {
		second.Allowed, second.Denied, second.WouldDeny = history.Requests(sp.Allowed), 0, sp.WouldDeny
		for r := range (report.Denials{}).All() {
			second.DeniedBy[r.String()] = sp.Denied[r]
			second.Denied += history.Requests(sp.Denied[r])
		}
	}
	known := map[hottype.Key]bool{}
	add := func(list []hottype.HotKey, state string) {
		for _, h := range hotset.FirstOfEachCost(slices.Clone(list), s.cfg.HistoryKeys) {
			if known[h.Key] {
				continue
			}
			known[h.Key] = true
			one := history.KeySecond{Key: h.Key, Rule: h.Rule, Cost: h.Cost, State: state, Rate: h.Rate,
				Clients: h.Clients,
				Allowed: history.Unknown, Denied: history.Unknown}
			if k, reported := sp.Keys[h.Key]; reported {
				one.Allowed, one.Denied = history.Requests(k.Allowed), history.Requests(k.Denied)
				one.WouldDeny = k.WouldDeny
			}
			second.Keys = append(second.Keys, one)
		}
	}
	add(hot, history.Hot)
	add(loops, history.Loop)
	add(heaviest, history.Cold)
	s.cfg.History.Second(second)
}

func (s *Service) recordChange(c *Change) {
	if s.cfg.History == nil {
		return
	}
	kept := *c
	kept.Seq = 0 // Seq numbers the changes of one process
	detail, err := json.Marshal(kept)
	if err != nil {
		s.cfg.Log.Error("admin: a change cannot be written", "kind", c.Kind, "err", err)
		return
	}
	s.cfg.History.Event(history.Event{At: c.At, Kind: c.Kind, Key: c.Key, Detail: detail, Span: spanOf(c)})
}

// spanOf returns the span that a change begins or ends, or nil for other changes.
func spanOf(c *Change) *history.Span {
	span := &history.Span{Key: hottype.Key(c.Key), Rule: c.Rule, Cost: c.Cost, State: history.Hot, Peak: c.Rate}
	switch c.Kind {
	case BecameLoop, CeasedLoop:
		span.State = history.Loop
	case BecameHot, Cooled:
	default:
		return nil
	}
	if c.Kind == BecameHot || c.Kind == BecameLoop {
		span.From = c.At
	} else {
		span.Until = c.At
	}
	return span
}
