package live

import (
	"cmp"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// rates computes speeds from the cumulative reports of limiters. Each limiter's speed is the difference of two of its
// own reports over the time between them by its own clock, so neither skewed clocks nor the pace of sampling matter. It
// is not safe for concurrent use.
type rates struct {
	instances map[string]*instance
	full      map[hottype.Key]hottype.Key // of the aliases in reports; replaced, never changed
}

type instance struct {
	last     report.Limiter
	keys     map[hottype.Key]report.KeyDecisions // of last
	heard    time.Time                           // time by this process's clock at which last came
	hasSpeed bool                                // there were two reports, so speed is known
	speed    speed
}

// speed holds what one limiter decides, or several limiters together (see totalSpeed). Its numbers are per second, but
// those of Hits are also totals since the start of the limiter, and Limiters is the number of limiters in the sums.
// Allowed leaves out Served, the requests that a response cache answered; WouldDeny is the part of Allowed that
// something in shadow mode would have denied.
type speed struct {
	Allowed   float64
	Served    float64
	WouldDeny float64
	Denied    [report.NumReasons]float64
	OfClient  float64 // denials sampled by report.Limiter.DeniedClients
	Keys      map[hottype.Key]keySpeed
	Hits      map[string]overrideHits // by ID
	Limiters  int
	Known     bool // the sums include the speed of a limiter
}

// keySpeed holds the decisions on one key. As in speed, Allowed leaves out Served and contains WouldDeny.
type keySpeed struct{ Allowed, Denied, Served, WouldDeny float64 }

func (k keySpeed) requests() float64 { return k.Allowed + k.Denied + k.Served }

const (
	// minReportInterval is the shortest interval between two reports from which a speed is computed. Shorter ones are
	// noise.
	minReportInterval = 500 * time.Millisecond
	// quietAfter is the time without a new report after which a limiter no longer counts.
	quietAfter = 5 * time.Second
	// forgetAfter is the time without a report after which a limiter is removed. If it comes back, it begins again.
	forgetAfter = time.Minute
	// maxInstances bounds the memory for limiters. Further limiters are ignored.
	maxInstances = 4096
)

func newRates() *rates { return &rates{instances: map[string]*instance{}} }

func (r *rates) add(now time.Time, reports []report.Limiter) {
	for _, rep := range reports {
		in, ok := r.instances[rep.Instance]
		switch {
		case rep.Stopped:
			delete(r.instances, rep.Instance)
		case ok:
			in.update(now, rep)
		case len(r.instances) < maxInstances:
			// Its decisions before its first report here belong to no interval.
			r.instances[rep.Instance] = newInstance(now, rep)
		}
	}
	for id, in := range r.instances {
		if now.Sub(in.heard) > forgetAfter {
			delete(r.instances, id)
		}
	}
	full := map[hottype.Key]hottype.Key{}
	for _, in := range r.instances {
		for _, k := range in.last.Keys {
			if k.Full != "" {
				full[k.Key] = k.Full
			}
		}
		for _, key := range in.last.LongKeys {
			if alias, ok := canon.Alias([]byte(key), nil); ok {
				full[hottype.Key(alias)] = key
			}
		}
	}
	for alias, key := range r.full { // keys with few requests are not in every sample
		if len(full) >= maxNamed {
			break
		}
		if full[alias] == "" {
			full[alias] = key
		}
	}
	r.full = full
}

// maxNamed bounds the known aliases. Only the last reports may have more.
const maxNamed = 1000

func newInstance(now time.Time, rep report.Limiter) *instance {
	return &instance{last: rep, keys: decisionsByKey(rep), heard: now, speed: speed{Hits: hitsOf(rep)}}
}

// update records the next report of a known limiter. A counter that shrank began again at 0, so all of it is new.
func (in *instance) update(now time.Time, rep report.Limiter) {
	apart := rep.At.Sub(in.last.At)
	if apart >= 0 && apart < minReportInterval {
		in.last.OverridesRevision = rep.OverridesRevision
		return // the same or too near: the next report covers both
	}
	if apart < 0 || apart > forgetAfter {
		*in = *newInstance(now, rep) // its clock jumped
		return
	}
	sp := speed{Keys: make(map[hottype.Key]keySpeed, len(rep.Keys))}
	allowed, served := counterGrowth(in.last.Allowed, rep.Allowed), counterGrowth(in.last.Served, rep.Served)
	sp.Allowed, sp.Served = perSecond(without(allowed, served), apart), perSecond(served, apart)
	sp.WouldDeny = perSecond(counterGrowth(in.last.WouldDeny, rep.WouldDeny), apart)
	for r, n := range rep.Denied.All() {
		sp.Denied[r] = perSecond(counterGrowth(in.last.Denied[r], n), apart)
	}
	sp.OfClient = perSecond(counterGrowth(in.last.ClientDenials, rep.ClientDenials), apart)
	for _, k := range rep.Keys {
		was := in.keys[k.Key]
		served := counterGrowth(was.Cached, k.Cached)
		sp.Keys[cmp.Or(k.Full, k.Key)] = keySpeed{
			Allowed: perSecond(without(counterGrowth(was.Allowed, k.Allowed), served), apart),
			Denied:  perSecond(counterGrowth(was.Denied, k.Denied), apart),
			Served:  perSecond(served, apart),

			WouldDeny: perSecond(counterGrowth(was.WouldDeny, k.WouldDeny), apart),
		}
	}
	sp.Hits = hitsOf(rep)
	for id, h := range sp.Hits {
		was := in.speed.Hits[id]
		h.PerSecond = perSecond(counterGrowth(was.Total, h.Total), apart)
		h.WouldDenyPerSecond = perSecond(counterGrowth(was.WouldDeny, h.WouldDeny), apart)
		sp.Hits[id] = h
	}
	*in = instance{last: rep, keys: decisionsByKey(rep), heard: now, hasSpeed: true, speed: sp}
}

// totalSpeed returns the sums of the speeds of all running limiters.
func (r *rates) totalSpeed(now time.Time) speed {
	sum := speed{Keys: map[hottype.Key]keySpeed{}}
	for _, in := range r.instances {
		if now.Sub(in.heard) > quietAfter {
			continue
		}
		sum.Limiters++
		sum.Known = sum.Known || in.hasSpeed
		sum.Allowed += in.speed.Allowed
		sum.Served += in.speed.Served
		sum.WouldDeny += in.speed.WouldDeny
		for i := range sum.Denied {
			sum.Denied[i] += in.speed.Denied[i]
		}
		for k, v := range in.speed.Keys {
			was := sum.Keys[k]
			sum.Keys[k] = keySpeed{Allowed: was.Allowed + v.Allowed, Denied: was.Denied + v.Denied,
				Served: was.Served + v.Served, WouldDeny: was.WouldDeny + v.WouldDeny}
		}
	}
	return sum
}

func (r *rates) hitsByOverride(now time.Time) map[string]overrideHits {
	sum := map[string]overrideHits{}
	for _, in := range r.instances {
		if now.Sub(in.heard) > quietAfter {
			continue
		}
		for id, h := range in.speed.Hits {
			was := sum[id]
			sum[id] = overrideHits{was.Total + h.Total, was.PerSecond + h.PerSecond, was.WouldDeny + h.WouldDeny,
				was.WouldDenyPerSecond + h.WouldDenyPerSecond}
		}
	}
	return sum
}

// hitsOf returns the hits in a report by ID. An override of the file may have the same ID as a live override.
func hitsOf(rep report.Limiter) map[string]overrideHits {
	m := make(map[string]overrideHits, len(rep.OverrideHits))
	for _, h := range rep.OverrideHits {
		m[h.ID] = overrideHits{Total: m[h.ID].Total + h.N, WouldDeny: m[h.ID].WouldDeny + h.WouldDeny}
	}
	return m
}

func decisionsByKey(rep report.Limiter) map[hottype.Key]report.KeyDecisions {
	m := make(map[hottype.Key]report.KeyDecisions, len(rep.Keys))
	for _, k := range rep.Keys {
		m[k.Key] = k
	}
	return m
}

func counterGrowth(before, after uint64) uint64 {
	if after < before {
		return after
	}
	return after - before
}

// without returns allowed without the part of it that was served. Counters are not read at the same instant, so the
// part may be greater than the whole.
func without(allowed, served uint64) uint64 { return allowed - min(allowed, served) }

func perSecond(n uint64, d time.Duration) float64 { return float64(n) / d.Seconds() }

// Overview holds the numbers of hot keys and loops of the namespace.
type Overview struct {
	HotKeys int `metric:"hotparam_namespace_hot_keys" help:"Hot keys of the namespace in this program's copy of the hot set."`
	Loops   int `metric:"hotparam_namespace_loops" help:"Loops of the namespace: keys over their threshold because of one or a few clients. They are neither hot nor limited."`
	// Rules holds the numbers of hot keys by the name of the rule. It has every rule in force.
	Rules map[string]int `metric:"hotparam_namespace_rule_hot_keys" label:"rule" help:"Hot keys of the namespace, by rule."`
	// HotRate holds the rates by the name of the rule, without rules that count another cost than requests.
	HotRate map[string]float64 `metric:"hotparam_namespace_rule_hot_rate" label:"rule" help:"Requests per second of all of the rule's hot keys in the namespace, unless the rule counts another cost."`
	// HotCost holds what the hot keys of the other rules cost.
	HotCost []RuleCost
}

// RuleCost is what the requests of the hot keys of a rule cost together.
type RuleCost struct {
	Rule string       `label:"rule"`
	Cost hottype.Cost `label:"cost"`
	Rate float64      `metric:"hotparam_namespace_rule_hot_cost" help:"Cost per second of all hot keys of a rule that counts a cost: seconds of time, bytes, or the number in a field of the response."`
}

func (s *Service) Overview() Overview {
	hot := s.cfg.Hot()
	o := Overview{HotKeys: len(hot), Loops: len(s.loopKeys()), Rules: map[string]int{}, HotRate: map[string]float64{}}
	sums := map[string]float64{}
	byName := map[string]*rules.Rule{}
	for _, r := range s.cfg.Rules().Rules {
		o.Rules[r.Name], byName[r.Name] = 0, r
	}
	for i := range hot {
		h := &hot[i]
		r := byName[h.Rule]
		if r == nil { // it is not in force here, as during a reload
			continue
		}
		o.Rules[h.Rule]++
		if h.Cost == r.Cost {
			sums[h.Rule] += h.Rate
		}
	}
	for _, r := range s.cfg.Rules().Rules {
		if r.Cost == "" {
			o.HotRate[r.Name] = sums[r.Name]
		} else {
			o.HotCost = append(o.HotCost, RuleCost{r.Name, r.Cost, sums[r.Name]})
		}
	}
	return o
}
