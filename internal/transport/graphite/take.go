package graphite

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// take takes what is new of a series.
func (p *Poller) take(s *series) {
	r := &p.round
	points, step, last, bad := s.buckets(r.scratch[:0])
	r.scratch = points
	p.count(func(st *Stats) { st.Series++; st.DroppedValue += uint64(bad) })
	if len(points) == 0 {
		return
	}
	p.round.step = max(p.round.step, step)
	if step == 0 { // a single point tells nothing
		step = int64(p.cfg.Flush / time.Second)
	}
	a := p.account(s.Target)
	if a == nil {
		return
	}
	if last > r.last {
		r.last, r.heard = last, r.asked
	}
	r.newest = max(r.newest, points[len(points)-1].at-1)
	for _, b := range points {
		if n := p.requests(b.value); a.take(b.at, step) && n > 0 {
			r.taken = append(r.taken, taken{a.key, n, b.at})
		}
	}
}

// seriesBuckets finds a series in the ledger. It is nil for one that is not ours or
// has no place.
func (p *Poller) account(target string) *seriesBuckets {
	if a := p.ledger.series[target]; a != nil {
		return a
	}
	key, err := p.parse(target)
	switch {
	case errors.Is(err, canon.ErrForeign):
		p.count(func(st *Stats) { st.DroppedForeign++ })
		return nil
	case err != nil:
		p.count(func(st *Stats) { st.DroppedName++ })
		return nil
	case len(p.ledger.series) >= p.ledger.most:
		p.count(func(st *Stats) { st.DroppedFull++ })
		return nil
	}
	return p.ledger.learn(target, key)
}

// requests makes a whole number of a value.
func (p *Poller) requests(v float64) int64 {
	if p.cfg.Suffix == "rate" {
		v *= p.cfg.Flush.Seconds()
	}
	return int64(math.Round(v))
}

// parse reads the key out of the name of a series. Of targets of a person's
// own, our name may stand anywhere between dots.
func (p *Poller) parse(target string) (hottype.Key, error) {
	name, _, _ := strings.Cut(target, ";") // tags
	if p.cfg.Suffix != "" {
		var ok bool
		if name, ok = strings.CutSuffix(name, "."+p.cfg.Suffix); !ok {
			return "", canon.ErrForeign
		}
	}
	if rest, ok := strings.CutPrefix(name, p.cfg.Prefix+"."); ok && strings.HasPrefix(rest, p.cfg.Names.Prefix+".") {
		return p.cfg.Names.Parse([]byte(rest))
	}
	err := canon.ErrForeign
	for rest, more := name, true; more; _, rest, more = strings.Cut(rest, ".") {
		if !strings.HasPrefix(rest, p.cfg.Names.Prefix+".") {
			continue
		}
		key, parseErr := p.cfg.Names.Parse([]byte(rest))
		if parseErr == nil {
			return key, nil
		}
		err = parseErr
	}
	return "", err
}
