package graphite

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

func (p *Poller) takeSeries(s *series) {
	r := &p.round
	points, step, last, bad := s.parseBuckets(r.scratch[:0])
	r.scratch = points
	if beats := p.cfg.heartbeatSeries(); slices.Contains(beats[:], s.Target) {
		for _, b := range points {
			if b.value > 0 {
				r.beat = max(r.beat, b.at)
			}
		}
		return
	}
	p.updateStats(func(st *Stats) { st.Series++; st.DroppedValue += uint64(bad) })
	if len(points) == 0 {
		return
	}
	p.round.step = max(p.round.step, step)
	if step == 0 { // a single point has no distance
		step = int64(p.cfg.Flush / time.Second)
	}
	a := p.ensureSeries(s.Target)
	if a == nil {
		return
	}
	if last > r.last {
		r.last, r.heard = last, r.asked
	}
	r.newest = max(r.newest, points[len(points)-1].at-1)
	for _, b := range points {
		if n := p.requestsOf(b.value); a.addIfNew(b.at, step) && n > 0 {
			r.taken = append(r.taken, takenBucket{a.key, n, b.at})
		}
	}
}

// ensureSeries returns the record of a series, which it adds if needed, or nil for a foreign series or if the table is
// full.
func (p *Poller) ensureSeries(target string) *seriesBuckets {
	if a := p.taken.series[target]; a != nil {
		return a
	}
	key, err := p.parse(target)
	switch {
	case errors.Is(err, canon.ErrForeign):
		p.updateStats(func(st *Stats) { st.DroppedForeign++ })
		return nil
	case err != nil:
		p.updateStats(func(st *Stats) { st.DroppedName++ })
		return nil
	case len(p.taken.series) >= p.taken.most:
		p.updateStats(func(st *Stats) { st.DroppedFull++ })
		return nil
	}
	return p.taken.addSeries(target, key)
}

func (p *Poller) requestsOf(v float64) int64 {
	if p.cfg.Suffix == "rate" {
		v *= p.cfg.Flush.Seconds()
	}
	return int64(math.Round(v))
}

// parse returns the key of a series. In custom targets our name may begin after any dot.
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

// takenBuckets remembers the buckets that were taken of each series, so that each is counted once in any order, even a
// bucket that was empty when later ones were taken. It is not safe for concurrent use.
type takenBuckets struct {
	most   int
	series map[string]*seriesBuckets
}

// seriesBuckets records the buckets that were taken of one series. A bucket's number is its time divided by the step.
type seriesBuckets struct {
	key    hottype.Key
	step   int64
	newest int64 // number of the newest bucket taken
	// before has a bit for each bucket that was taken before the newest one; bit 0 is the bucket immediately before it.
	// Buckets that are too old for a bit count as taken.
	before uint64
	at     int64 // time of the newest bucket taken
}

func newTakenBuckets(most int) *takenBuckets {
	return &takenBuckets{most: most, series: make(map[string]*seriesBuckets)}
}

// addSeries adds a series. The table must not be full.
func (t *takenBuckets) addSeries(name string, key hottype.Key) *seriesBuckets {
	a := &seriesBuckets{key: key}
	t.series[name] = a
	return a
}

// addIfNew records a bucket and reports whether it is new.
func (b *seriesBuckets) addIfNew(at, step int64) bool {
	if b.step != step { // a new record, or another schema of carbon
		if b.step != 0 && at <= b.at {
			return false
		}
		b.step, b.newest, b.before, b.at = step, at/step, 0, at
		return true
	}
	n := at / step
	back := b.newest - n
	switch {
	case back < 0:
		b.before = (b.before<<1 | 1) << uint64(-back-1)
		b.newest, b.at = n, at
		return true
	case back == 0 || back > 64:
		return false
	}
	bit := uint64(1) << (back - 1)
	isNew := b.before&bit == 0
	b.before |= bit
	return isNew
}

// pruneSeries removes the series that had no new bucket since before. That time must precede all buckets that a
// response can still contain, because they would be counted twice.
func (t *takenBuckets) pruneSeries(before int64) {
	for name, a := range t.series {
		if a.at < before {
			delete(t.series, name)
		}
	}
}
