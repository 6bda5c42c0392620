package learn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

type candidate struct {
	at     *place
	params []*tracked
	values float64 // how many different ones
	peaks  *peaks
	keys   []*measured
	threshold
}

func (c *candidate) names() (all []string) {
	for _, p := range c.params {
		if p.segment < 0 && strings.Contains(p.name, ".") {
			all = append(all, "query."+p.name)
			continue
		}
		all = append(all, p.name)
	}
	return all
}

// candidates are the parameters and the pairs worth measuring, those of the busiest
// paths first.
func (s *survey) candidates(minClients int) []*candidate {
	var all []*candidate
	for _, pl := range s.places {
		var own []*tracked
		var index []int
		for i, p := range pl.params {
			if p.role != content {
				continue
			}
			if by := pl.follows(i); by != "" {
				p.why = "it follows " + by
				continue
			}
			own, index = append(own, p), append(index, i)
		}
		for i, p := range own {
			all = append(all, &candidate{at: pl, params: own[i : i+1], values: p.values.distinct.count()})
			for j := range i {
				if c := pl.pairOf(index[j], index[i]); c != nil {
					all = append(all, c)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(b.at.ends, a.at.ends) })
	all = all[:min(len(all), maxCandidates)]
	for _, c := range all {
		c.peaks = newPeaks(minClients)
	}
	return all
}

// pairOf makes a candidate of two parameters that do not decide each other; nil where
// one of them only shows the page in another way.
func (pl *place) pairOf(i, j int) *candidate {
	pairs := pl.pairs[[2]int{i, j}]
	a, b := pl.params[i], pl.params[j]
	if pairs == nil || matchesAny(views, a.name) || matchesAny(views, b.name) {
		return nil
	}
	n := pairs.count()
	if n < 1.5*a.values.distinct.count() || n < 1.5*b.values.distinct.count() {
		return nil
	}
	return &candidate{at: pl, params: []*tracked{a, b}, values: n}
}

// measure counts the peaks of all candidates under the keys that rules give them.
// Requests that no candidate counts go to rest.
func measure(ctx context.Context, l *learner, all []*candidate, rest *peaks, ignore []string) error {
	// Each candidate is a rule that lets the others count too, up to as many as one
	// request may have keys.
	for rest != nil || len(all) > 0 {
		batch := all[:min(len(all), rules.MaxKeys-1)]
		all = all[len(batch):]
		var text strings.Builder
		fmt.Fprintf(&text, "rules:\n  - {name: \"*\", params: [\"*\"], ignore: [%s], hot: {rate: 1}}\n",
			quoteAll(ignore))
		byName := map[string]*candidate{}
		for i, c := range batch {
			name := fmt.Sprint("c", i)
			byName[name] = c
			fmt.Fprintf(&text, "  - {name: %s, match: {path: %s}, params: [%s], continue: true, hot: {rate: 1}}\n",
				name, quote(c.at.pattern), quoteAll(c.names()))
		}
		set, err := rules.Parse("candidates", []byte(text.String()))
		if err != nil {
			return fmt.Errorf("learn: the candidates are no rules, which is a mistake of this program: %w", err)
		}
		var sc rules.Scratch
		_, err = l.read(ctx, func(s *replay.Seen) {
			client, second := clientsketch.Hash(s.Request.Client), s.At.Unix()
			matches := set.Match(s.Request, &sc)
			for _, m := range matches {
				switch c := byName[m.Rule.Name]; {
				case m.Malformed:
				case c != nil:
					c.peaks.add(m.Key, client, second)
				case rest != nil && len(matches) == 1:
					rest.add(m.Key, client, second)
				}
			}
		})
		if err != nil {
			return err
		}
		rest = nil
	}
	return nil
}

// pick chooses one candidate of a path, nil if none has values that many clients
// request at a time. Candidates with a gap between viral values and others come first,
// then those with more values.
func pick(all []*candidate, minClients int) *candidate {
	var best *candidate
	for _, c := range all {
		if c.wanted(minClients) && (best == nil || better(c, best)) {
			best = c
		}
	}
	return best
}

// leastClients is how many clients must have requested one value within a minute. If clients are not known, because the
// log has the addresses of a proxy, as many requests are enough.
const leastClients = 10

func (c *candidate) wanted(minClients int) bool {
	return slices.ContainsFunc(c.keys, func(m *measured) bool {
		last := len(windows) - 1
		return m.who[last] >= leastClients || minClients == 0 && m.asked[last] >= leastClients
	})
}

// better reports whether a is a better key than b. A pair is better than one of its
// halves if nearly all requests that made the half viral are for one pair: a limit on
// the half would limit other pages too.
func better(a, b *candidate) bool {
	if a.found() != b.found() {
		return a.found()
	}
	if len(a.params) != len(b.params) {
		pair, half, isPair := a, b, true
		if len(a.params) < len(b.params) {
			pair, half, isPair = b, a, false
		}
		last := len(windows) - 1
		return isPair == (pair.found() && highest(pair.keys, last) >= 0.8*highest(half.keys, last))
	}
	if a.found() {
		return a.ratio > b.ratio
	}
	return a.values > b.values
}

func highest(keys []*measured, window int) float64 {
	top := 0.0
	for _, k := range keys {
		top = max(top, k.score[window])
	}
	return top
}
