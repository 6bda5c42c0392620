package learn

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

type candidate struct {
	at     *place
	params []*tracked
	values float64 // about the number of different values
	peaks  *peaks
	keys   []*measured
	threshold
	// others counts the requests that the pattern of the path matches but that are not for a value: requests without a
	// value, by their path, and requests for pages that are literal in the tree of paths. pages are the keys of others.
	others *peaks
	pages  []*measured
}

func (c *candidate) paramNames() (all []string) {
	for _, p := range c.params {
		if p.segment < 0 && strings.Contains(p.name, ".") {
			all = append(all, "query."+p.name)
			continue
		}
		all = append(all, p.name)
	}
	return all
}

// selectCandidates returns the parameters and the pairs that are worth measuring, the busiest paths first.
func (s *survey) selectCandidates(minClients int) []*candidate {
	var all []*candidate
	for _, pl := range s.places {
		var own []*tracked
		var index []int
		for i, p := range pl.params {
			if p.role != content {
				continue
			}
			if by := pl.decidingParam(i); by != "" {
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
		c.peaks, c.others = newPeaks(minClients), newPeaks(minClients)
	}
	return all
}

// pairOf returns a candidate of two parameters that do not decide each other, or nil if one of them only shows the page
// in another way.
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

// measurePeaks counts the peaks of all candidates under the keys that rules write for them. Requests that no candidate
// counts go to rest.
func (s *survey) measurePeaks(ctx context.Context, l *learner, all []*candidate, rest *peaks, ignore []string,
	usual func(*replay.Seen) bool) error {
	// Each candidate is a rule with continue, so that the other candidates count too, up to the number of keys that one
	// request may have.
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
				name, quote(c.at.pattern), quoteAll(c.paramNames()))
		}
		set, err := rules.Parse("candidates", []byte(text.String()))
		if err != nil {
			return fmt.Errorf("learn: the candidates are not rules, which is a mistake of this program: %w", err)
		}
		var sc rules.Scratch
		_, err = l.read(ctx, func(seen *replay.Seen) {
			client, second, usual := clientsketch.Hash(seen.Request.Client), seen.At.Unix(), usual(seen)
			matches := set.Match(seen.Request, &sc)
			path, at, valued := "", (*node)(nil), false
			for _, m := range matches {
				c := byName[m.Rule.Name]
				if c != nil && path == "" {
					path, at = s.nodeOf(seen)
				}
				switch {
				case m.Malformed:
				case c != nil && (at != c.at.node || bytes.IndexByte(m.Key, '?') < 0 || isAsset(path)):
					c.others.add([]byte(path), client, second, usual)
				case c != nil:
					c.peaks.add(m.Key, client, second, usual)
					valued = true
				case rest != nil && !valued: // the rule for everything is the last rule
					rest.add(m.Key, client, second, usual)
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

func (s *survey) nodeOf(seen *replay.Seen) (path string, at *node) {
	path, _ = seen.Request.SplitTarget()
	if segments, ok := segmentsOf(path); ok {
		at = s.paths.find(segments)
	}
	return path, at
}

// maxPages is the maximum number of pages of their own that the pattern of a rule may match.
const maxPages = 6

// setThreshold chooses the threshold from the measured peaks. It returns false if the pattern of the path matches pages
// that would be limited with the values: too many of them, or a page that no rule can name.
func (c *candidate) setThreshold(span time.Duration, clients int64) bool {
	c.keys, c.pages = c.peaks.finishScoring(), c.others.finishScoring()
	slices.SortFunc(c.pages, func(a, b *measured) int { return cmp.Compare(a.key, b.key) })
	c.peaks, c.others = nil, nil
	c.threshold = chooseThreshold(c.keys, c.values, span, c.isFinest(), clients)
	c.pages = slices.DeleteFunc(c.pages, func(m *measured) bool { return 2*m.score[c.index] < float64(c.requests) })
	return len(c.pages) <= maxPages && !slices.ContainsFunc(c.pages, func(m *measured) bool {
		segments, ok := segmentsOf(string(m.key))
		return !ok || len(c.at.wild) == 0 || string(m.key) == c.at.pattern ||
			slices.ContainsFunc(segments, func(s string) bool { return s != end && !isPlainText(s) })
	})
}

// bestCandidate returns the best candidate of a path, or nil if no candidate deserves a rule. requests is the number of
// requests at all paths. Candidates with a gap between viral values and others are preferred, then candidates with more
// values.
func bestCandidate(all []*candidate, minClients int, requests int64) *candidate {
	var best *candidate
	for _, c := range all {
		if c.deservesRule(minClients, requests) && (best == nil || isBetterKey(c, best)) {
			best = c
		}
	}
	return best
}

// leastClients is the minimum number of clients that must have requested a viral value within a minute. If clients are
// not known, because the log has the addresses of a proxy, as many requests are enough.
const leastClients = 10

// A query parameter of which no value has gone viral has a rule without a limit if quietShare of the requests are for
// its path, if people share its values, by quietShared, and if quietUnique of the requests, or fewer, bring a new
// value. Segments of the path need none: the catch-all counts each path.
const (
	quietShare   = 0.05
	quietRepeats = 50
	quietShared  = 0.1
	quietUnique  = 0.7
	leastOfView  = 20 // values of a parameter that is named like a view
)

// clientsOfViral returns the minimum number of clients of a viral value, or 0 if clients are not known.
func (p *Proposal) clientsOfViral() int64 {
	if p.minClients == 0 {
		return 0
	}
	return leastClients
}

func (c *candidate) deservesRule(minClients int, requests int64) bool {
	if !c.hasViralValues() {
		v := c.params[0].values
		switch {
		case matchesAny(views, c.params[0].name) && c.values < leastOfView:
			return false
		case minClients == 0 && v.uniqueShare() >= leastUnique && float64(v.random) >= majority*float64(v.requests):
			return false // visits, of people who are not known
		}
		return len(c.params) == 1 && !c.isPath() &&
			float64(v.requests) >= quietShare*float64(requests) && v.repeats >= quietRepeats &&
			v.uniqueShare() <= quietUnique && v.isShared(quietShared)
	}
	return slices.ContainsFunc(c.keys, func(m *measured) bool {
		last := len(windows) - 1
		return m.who[last] >= leastClients || minClients == 0 && m.asked[last] >= leastClients
	})
}

// isBetterKey reports whether a is a better key than b. A pair is better than one of its two parameters if it narrows
// that parameter.
func isBetterKey(a, b *candidate) bool {
	if a.hasViralValues() != b.hasViralValues() {
		return a.hasViralValues()
	}
	if len(a.params) != len(b.params) && (a.hasParamOf(b) || b.hasParamOf(a)) {
		pair, half, isPair := a, b, true
		if len(a.params) < len(b.params) {
			pair, half, isPair = b, a, false
		}
		return isPair == (pair.hasViralValues() && pair.narrowsTopValue(half))
	}
	if a.isPath() != b.isPath() && a.hasViralValues() {
		// The query names the topic, the path the page that shows it.
		return b.isPath() == (2*min(a.params[0].requests, b.params[0].requests) >= a.at.ends)
	}
	if a.hasViralValues() && !haveSimilarPeaks(a, b) {
		return a.ratio > b.ratio
	}
	return a.values > b.values
}

// narrowsTopValue reports whether nearly all requests that made a value of half viral are for one pair, and the value
// has other pairs too: a limit on half would limit those other pages.
func (c *candidate) narrowsTopValue(half *candidate) bool {
	last := len(windows) - 1
	most := func(a, b *measured) int { return cmp.Compare(a.score[last], b.score[last]) }
	if len(c.keys) == 0 || len(half.keys) == 0 {
		return false
	}
	pair, value := slices.MaxFunc(c.keys, most), slices.MaxFunc(half.keys, most)
	return pair.score[last] >= 0.8*value.score[last] && float64(pair.total) < 0.9*float64(value.total)
}

// hasParamOf reports whether a parameter of another candidate is one of c.
func (c *candidate) hasParamOf(other *candidate) bool {
	return slices.ContainsFunc(other.params, func(p *tracked) bool { return slices.Contains(c.params, p) })
}

// isFinest reports whether no other parameter of the path has many more values. A value that most requests have beside
// many values of another parameter is a way to show a page, not a page.
func (c *candidate) isFinest() bool {
	return !slices.ContainsFunc(c.at.params, func(p *tracked) bool {
		return (p.role == content || p.role == text) && p.values.distinct.count() > 2*c.values
	})
}

func (c *candidate) isPath() bool { return c.params[0].segment >= 0 }

// haveSimilarPeaks reports whether the highest values of two candidates are requested about as much: then they are of
// the same requests, and the candidate with more values limits fewer pages.
func haveSimilarPeaks(a, b *candidate) bool {
	last := len(windows) - 1
	x, y := highestScore(a.keys, last), highestScore(b.keys, last)
	return min(x, y) >= 0.8*max(x, y)
}

func highestScore(keys []*measured, window int) float64 {
	top := 0.0
	for _, k := range keys {
		top = max(top, k.score[window])
	}
	return top
}

func compareValues(a, b *candidate) int { return cmp.Compare(a.values, b.values) }

// setRestThreshold chooses the threshold of keys without a rule. Files that pages load are not viral.
func (p *Proposal) setRestThreshold(others []*measured, seen int64) {
	p.restMost = highestScore(others, 0)
	files := slices.DeleteFunc(slices.Clone(others), func(m *measured) bool { return !m.isFile() })
	others = slices.DeleteFunc(others, (*measured).isFile)
	p.rest = chooseThreshold(others, float64(seen), p.clock.timeSpan(), false, p.clientsOfViral())
	p.rest.raiseAbove(highestScore(files, p.rest.index))
}
