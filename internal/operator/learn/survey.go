package learn

import (
	"cmp"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

type tracked struct {
	name     string // of a query parameter, or path.x
	segment  int    // of the path, or -1 for a query parameter
	requests int64  // requests with the parameter
	values   *values
	spending spending
	role     role
	why      string
}

type place struct {
	*template
	params []*tracked // the most frequent first
	pairs  map[[2]int]*distinct[struct{}]
}

type survey struct {
	paths  *paths
	places []*place
	byNode map[*node]*place
	hashes []uint64 // of the values of one request, or 0 if a parameter is absent
	// requests is the number of requests for pages by clients other than machines.
	requests int64
	// spent is the time of all requests whose lines have a time.
	spent spent
}

// maxPaired is the number of parameters of a path, the most frequent ones, that are also counted in pairs.
const maxPaired = 5

// newSurvey chooses the parameters with at least leastRequests requests, up to maxTracked of them.
func newSurvey(p *paths, leastRequests int64) *survey {
	s := &survey{paths: p, byNode: make(map[*node]*place)}
	type found struct {
		at    *place
		param *tracked
	}
	var all []found
	for _, t := range p.buildTemplates() {
		pl := &place{template: t, pairs: make(map[[2]int]*distinct[struct{}])}
		s.places = append(s.places, pl)
		for i, name := range t.wild {
			all = append(all, found{pl, &tracked{name: "path." + name, segment: t.at[i], requests: t.ends}})
		}
		for name, n := range t.names {
			all = append(all, found{pl, &tracked{name: name, segment: -1, requests: n}})
		}
	}
	all = slices.DeleteFunc(all, func(f found) bool { return f.param.requests < leastRequests })
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.param.requests, a.param.requests),
			cmp.Compare(a.at.pattern, b.at.pattern), cmp.Compare(a.param.name, b.param.name))
	})
	for _, f := range all[:min(maxTracked, len(all))] {
		f.param.values = newValues()
		f.at.params = append(f.at.params, f.param)
		s.byNode[f.at.node] = f.at
	}
	s.places = slices.DeleteFunc(s.places, func(pl *place) bool { return len(pl.params) == 0 })
	return s
}

// add adds a request. The request of a client that is not usual shows only how long values take.
func (s *survey) add(seen *replay.Seen, usual bool) {
	took := seen.Costs.Time
	switch {
	case took >= 0:
		s.spent.time += took
		s.spent.requests++
	case !usual:
		return
	}
	if usual {
		s.requests++
	}
	target, query := seen.Request.SplitTarget()
	segments, ok := segmentsOf(target)
	if !ok {
		return
	}
	pl := s.byNode[s.paths.find(segments)]
	if pl == nil {
		return
	}
	s.hashes = append(s.hashes[:0], make([]uint64, len(pl.params))...)
	client := clientsketch.Hash(seen.Request.Client)
	note := func(i int, value string) {
		if s.hashes[i] == 0 { // of several values the first counts
			if usual {
				pl.params[i].values.add(value, client, seen.At)
			}
			if took >= 0 {
				pl.params[i].spending.add(value, took)
			}
			s.hashes[i] = hash(value) | 1
		}
	}
	for i, p := range pl.params {
		if p.segment >= 0 && p.segment < len(segments) {
			note(i, segments[p.segment])
		}
	}
	for name, value := range queryParams(query) {
		for i, p := range pl.params {
			if p.segment < 0 && p.name == name {
				note(i, value)
			}
		}
	}
	if !usual {
		return
	}
	for i := range min(maxPaired, len(pl.params)) {
		for j := range i {
			pl.countPair(j, i, s.hashes)
		}
	}
}

func (pl *place) countPair(i, j int, hashes []uint64) {
	if hashes[i] == 0 || hashes[j] == 0 {
		return
	}
	d := pl.pairs[[2]int{i, j}]
	if d == nil {
		d = &distinct[struct{}]{}
		pl.pairs[[2]int{i, j}] = d
	}
	d.add(canon.Mix(hashes[i]*31 + hashes[j]))
}

func (s *survey) classifyAll(span time.Duration) {
	for _, pl := range s.places {
		for _, p := range pl.params {
			p.role, p.why = classifyParam(p.name, p.segment >= 0, p.values, int64(span.Seconds()))
		}
		for i := range pl.params {
			pl.markDependentNoise(i)
		}
	}
}

// markDependentNoise makes a parameter noise if it changes with noise parameter i, which is unique: the two have as
// many pairs as each has values, such as a nonce and its signature. A parameter of which each value has many values of
// the unique parameter is not made noise.
func (pl *place) markDependentNoise(i int) {
	a := pl.params[i]
	if a.role != noise || a.values.uniqueShare() < 0.9 {
		return
	}
	for j := range min(maxPaired, len(pl.params)) {
		b := pl.params[j]
		pairs := pl.pairs[[2]int{min(i, j), max(i, j)}]
		if i == j || pairs == nil || b.segment >= 0 || b.role == noise {
			continue
		}
		if n := pairs.count(); n <= 1.05*a.values.distinct.count() && n <= 1.05*b.values.distinct.count() {
			b.role, b.why = noise, "it changes with "+a.name+", which is new in each request"
		}
	}
}

// decidingParam returns the parameter that decides the value of parameter i, or "" if there is none: the two parameters
// have hardly more pairs than the deciding one has values. If two parameters decide each other, the one with more
// values is kept, then the one with shorter values.
func (pl *place) decidingParam(i int) string {
	for j := range min(maxPaired, len(pl.params)) {
		a, b := pl.params[j], pl.params[i]
		key := [2]int{min(i, j), max(i, j)}
		if i == j || a.role != content || pl.pairs[key] == nil || a.requests*2 < b.requests {
			continue
		}
		together, da, db := pl.pairs[key].count(), a.values.distinct.count(), b.values.distinct.count()
		if da < 2 || together > 1.05*da {
			continue
		}
		mutual := together <= 1.05*db
		if !mutual || da > db || da == db && a.values.bytes < b.values.bytes {
			return a.name
		}
	}
	return ""
}

// maxPairs is the number of parameters of a query that are read.
const maxPairs = 64

// queryParams yields the first maxPairs parameters of a query, decoded. A text that cannot be decoded is yielded
// unchanged.
func queryParams(query string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := 0; query != "" && i < maxPairs; i++ {
			var pair string
			pair, query, _ = strings.Cut(query, "&")
			name, value, _ := strings.Cut(pair, "=")
			if name != "" && !yield(decodeQuery(name), decodeQuery(value)) {
				return
			}
		}
	}
}

func decodeQuery(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	if d, err := url.QueryUnescape(s); err == nil {
		return d
	}
	return s
}

// clock finds logs whose times were rounded or squeezed, because rates cannot be learned from them.
type clock struct {
	minutes, seconds [60]int64 // requests by minute of the hour, and by second of the minute
	first, last      time.Time
	requests         int64
}

func (c *clock) add(at time.Time) {
	if c.first.IsZero() {
		c.first = at
	}
	c.last = at
	c.requests++
	c.minutes[at.Minute()]++
	c.seconds[at.Second()]++
}

// timeSpan returns the time from the first to the last request.
func (c *clock) timeSpan() time.Duration { return c.last.Sub(c.first) }

// maxUsedUnits is the number of minutes of an hour, or of seconds of a minute, up to which the times of a log are
// squeezed or rounded if no other minute or second has a request. In other logs all of them have requests.
const maxUsedUnits = 6

// leastForClock is the minimum number of requests of a log for this test.
const leastForClock = 500

// faultReason returns the reason why the times of the log are not the times of the requests, or "" if they are right.
func (c *clock) faultReason() string {
	used := func(of [60]int64) (n int) {
		for _, k := range of {
			n += int(oneIf(k > 0))
		}
		return n
	}
	switch {
	case c.requests < leastForClock:
	case c.timeSpan() > 6*time.Hour && used(c.minutes) <= maxUsedUnits:
		return "the time of this log is squeezed, into the same few minutes of every hour, so it shows no rates"
	case c.timeSpan() > 10*time.Minute && used(c.seconds) <= maxUsedUnits:
		return "the time of this log is rounded, to the same few seconds of every minute, so it shows no rates"
	}
	return ""
}
