package costs

import (
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// Given has the costs of a request that its caller knows. A cost that is not given is -1.
type Given struct {
	Time  time.Duration // for which the upstream worked on the request
	Bytes int64         // of the body of the response
	Cost  float64       // in the field of the response
	Left  bool          // the client left before the response: the request costs the mean at least
}

// NothingGiven is the Given of a caller that knows no cost.
var NothingGiven = Given{Time: -1, Bytes: -1, Cost: -1}

// CostBy returns the cost of a request by a cost of a rule, and whether it is known.
func (g *Given) CostBy(c hottype.Cost) (cost int64, known bool) {
	switch c {
	case hottype.CostTime:
		return g.Time.Microseconds(), g.Time >= 0
	case hottype.CostBytes:
		return g.Bytes, g.Bytes >= 0
	}
	return thousandths(g.Cost), g.Cost >= 0
}

// Give records costs that the caller knows, before the response is reported. They take the place of measured ones.
func (w *Work) Give(g Given) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given = g
}

// costIn reads the cost in a field of a response, in thousandths. The field has one line with a number that is not
// negative.
func costIn(header map[string][]string, field string) (cost int64, ok bool) {
	lines := header[field]
	if len(lines) != 1 {
		return 0, false
	}
	f, err := strconv.ParseFloat(lines[0], 64)
	if err != nil || !(f >= 0 && f <= maxCost/1000) {
		return 0, false
	}
	return thousandths(f), true
}

// thousandths converts a cost that is not negative to thousandths, at most maxCost.
func thousandths(f float64) int64 { return int64(min(f, maxCost/1000)*1000 + 0.5) }

// CountGiven counts a request that has ended and whose costs the caller knows, or the mean if the cost of the rule is
// unknown. If the client left before the response the cost is the mean at least.
func (m *Meter) CountGiven(second int64, key []byte, rule *rules.Rule, g Given, client hottype.Client) {
	m.CountEnd(second, key, rule, g, client, false)
}

// maxSpread bounds the seconds over which the time of a request is counted. Windows are shorter.
const maxSpread = 60

// CountEnd counts like CountGiven, or if the mean was counted when the request began only what exceeds it. The time of
// a request counts in the seconds in which it passed.
func (m *Meter) CountEnd(second int64, key []byte, rule *rules.Rule, g Given, client hottype.Client, meanCounted bool) {
	mean, hasMean := m.MeanOf(key, rule.Name)
	cost, known := g.CostBy(rule.Cost)
	switch {
	case !known && !meanCounted:
		m.CountMean(second, key, rule.Name, 1, client)
		return
	case !known:
		return
	case g.Left && hasMean:
		cost = max(cost, mean)
	}
	m.learn(key, rule.Name, cost)
	requests := int64(1)
	if meanCounted && hasMean {
		cost, requests = cost-mean, 0
	}
	cost = min(cost, maxCost)
	if rule.Cost == hottype.CostTime {
		const part = int64(time.Second / time.Microsecond)
		for last := second - maxSpread; cost > part && second > last; second-- {
			m.count(second, key, part, requests, client)
			cost, requests = cost-part, 0
		}
	}
	m.count(second, key, cost, requests, client)
}
