package learn

import (
	"cmp"
	"slices"
)

// ignored is a parameter that the catch-all leaves out.
type ignored struct {
	glob     string
	requests int64
	why      string
}

// maxIgnored is how many names a proposal leaves out, besides the usual ones.
const maxIgnored = 40

// usual are parameters of advertising links and the cache-busters of common libraries,
// whether or not the log has them.
var usual = []string{"utm_*", "gclid", "fbclid", "msclkid", "_"}

// noise lists the parameters that are noise at every path where they are tracked: by
// their values, or for trackers too rare to be tracked by their names.
func (s *survey) noise(p *paths) []ignored {
	found, kept := map[string]*ignored{}, map[string]bool{}
	for _, pl := range s.places {
		for _, t := range pl.params {
			if t.segment >= 0 {
				continue
			}
			if t.role != noise {
				kept[t.name] = true
				continue
			}
			i := found[t.name]
			if i == nil {
				i = &ignored{glob: t.name, why: t.why}
				found[t.name] = i
			}
			i.requests += t.requests
		}
	}
	for _, t := range p.templates() {
		for name, n := range t.names {
			if matchesAny(trackers, name) && found[name] == nil {
				found[name] = &ignored{glob: name, requests: n, why: "a tracking parameter by its name"}
			}
		}
	}
	var all []ignored
	for name, i := range found {
		if !kept[name] && !matchesAny(globs(usual...), name) {
			all = append(all, *i)
		}
	}
	slices.SortFunc(all, func(a, b ignored) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), cmp.Compare(a.glob, b.glob))
	})
	return all[:min(len(all), maxIgnored)]
}

func globsOf(all []ignored) []string {
	globs := slices.Clone(usual)
	for _, i := range all {
		globs = append(globs, i.glob)
	}
	return globs
}
