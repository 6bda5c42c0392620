package learn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	maxWanted = 5
	// leastOfWanted is the minimum number of ordinary clients of a log of which the wanted keys are listed, if clients
	// are known.
	leastOfWanted = 50
)

// isFile reports whether a key is a file that pages load.
func (m *measured) isFile() bool {
	path, _, _ := strings.Cut(string(m.key), "?")
	return isAsset(path)
}

// listWanted lists the keys that most clients request, whether their requests come in a burst or not, of the proposed
// rules and of the others.
func (p *Proposal) listWanted(others []*measured) error {
	requests := p.survey.requests
	census := p.visitors.countKinds()
	if p.proxied == "" && census[person]+census[sharedAddress] < leastOfWanted {
		return nil
	}
	set, err := p.parseConfig(shadow, 1)
	if err != nil {
		return err
	}
	type wanted struct {
		key   string
		usual int64
	}
	var all []wanted
	for _, r := range p.rules {
		for _, m := range r.keys {
			if _, value, ok := strings.Cut(string(m.key), "?"); ok && m.isWanted(requests) {
				all = append(all, wanted{r.name + "?" + value, m.usual})
			}
		}
	}
	var sc rules.Scratch
	for _, m := range others {
		if m.isWanted(requests) && !m.isFile() && m.key[0] == '/' {
			// A page may have become a value of a rule.
			for _, found := range set.Match(&hottype.Request{Method: "GET", Target: string(m.key)}, &sc) {
				all = append(all, wanted{string(found.Key), m.usual})
			}
		}
	}
	slices.SortFunc(all, func(a, b wanted) int {
		return cmp.Or(cmp.Compare(b.usual, a.usual), cmp.Compare(a.key, b.key))
	})
	for _, w := range all[:min(len(all), maxWanted)] {
		p.wanted = append(p.wanted, fmt.Sprintf("%s (%.0f %% of the requests for pages)",
			replay.Fit(replay.Printable(hideSecrets(w.key)), 100), 100*float64(w.usual)/float64(requests)))
	}
	return nil
}

// hideSecrets returns a key without the values of parameters that belong to one person or one request by their names,
// such as token, because summaries are pasted where logs are not.
func hideSecrets(key string) string {
	path, query, ok := strings.Cut(key, "?")
	if !ok {
		return key
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, _, ok := strings.Cut(pair, "="); ok && matchesAny(secrets, name) {
			pairs[i] = name + "=…"
		}
	}
	return path + "?" + strings.Join(pairs, "&")
}

// describeUniqueKeys names the parameters by which most requests have a key of their own, so that none of their values
// can become hot.
func (p *Proposal) describeUniqueKeys() []string {
	var named []string
	for _, pl := range p.survey.places {
		if slices.ContainsFunc(p.rules, func(r *proposed) bool { return r.at == pl }) {
			continue
		}
		for _, t := range pl.params {
			if (t.role == content || t.role == text) && t.values.uniqueShare() >= quietUnique &&
				float64(t.values.requests) >= quietShare*float64(p.survey.requests) {
				named = append(named, fmt.Sprintf("%s of %s (%s requests, a new value in %.0f %%)",
					strings.TrimPrefix(t.name, "path."), pl.pattern, replay.Grouped(t.values.requests),
					100*min(1, t.values.uniqueShare())))
			}
		}
	}
	if len(named) == 0 {
		return nil
	}
	return []string{"Nothing can be found among values that are hardly requested twice: " + strings.Join(named, ", ") +
		". If such a parameter does not choose the page, add it to ignore."}
}
