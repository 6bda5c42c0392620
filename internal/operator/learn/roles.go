package learn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/rules"
)

type role int

const (
	content  role = iota // the parameter may decide which page is requested
	noise                // the parameter does not: the same page has many of its values
	constant             // always the same
	text                 // nearly unique, and typed by people: searches
	setting              // a few values that all pages have
)

// trackers match the names of parameters that advertising and analytics append to links.
var trackers = newGlobs(rules.Trackers()...)

// secrets match the names of parameters that belong to one person or one request.
var secrets = newGlobs(
	"*session*", "sid", "sessid", "jsessionid", "phpsessid", "*token*", "auth", "*apikey*", "api_key", "sig",
	"*signature*", "nonce", "csrf*", "_csrf", "*password*", "code", "state", "rnd", "rand", "random", "cb",
	"cachebust*", "nocache", "*requestid*", "request_id", "visitor*", "uid", "cid", "clientid", "client_id",
	"deviceid", "device_id",
)

func newGlobs(patterns ...string) (all []canon.Glob) {
	for _, p := range patterns {
		all = append(all, canon.NewGlob(p))
	}
	return all
}

func matchesAny(all []canon.Glob, name string) bool {
	lower := []byte(strings.ToLower(name))
	return slices.ContainsFunc(all, func(g canon.Glob) bool { return g.Match(lower) })
}

// views match the names of parameters that show a page in another way, or name where the visitor came from. They are
// not part of a pair.
var views = newGlobs(
	"ref", "referrer", "referer", "source", "src", "via", "from", "campaign", "medium", "page", "p", "offset",
	"start", "limit", "per_page", "sort", "order", "lang", "locale", "hl", "format", "view", "tab", "theme", "v", "ver",
	"version",
)

const leastValues = 5

// flatShare is a share of a parameter's requests. If no value has as many, no value is popular.
const flatShare = 0.005

// majority is the share of a parameter's requests from which on their sort of values is the sort of the parameter.
const majority = 0.8

// classifyParam returns the role of a parameter, and the reason. Uniqueness alone does not decide: searches are as
// unique as cache-busters, but people share their words. A value of the path is never noise, because it names the page.
func classifyParam(name string, inPath bool, v *values, seconds int64) (role, string) {
	n := float64(max(v.requests, 1))
	unique := min(1, v.uniqueShare())
	random := v.requests >= 20 && float64(v.random) >= majority*n
	switch {
	case inPath:
	case matchesAny(trackers, name):
		return noise, "a tracking parameter by its name"
	case float64(v.clocks) >= majority*n:
		return noise, "its values are the time of the request"
	case float64(v.decimals) >= majority*n && v.distinct.count() >= leastValues:
		return noise, "its values have decimals, as measures and random numbers do"
	case v.isMeasure():
		return noise, "a measure: its values begin near 0, and the greater the rarer they are"
	case v.isOfOneVisit(seconds):
		return noise, "each value is requested within a short while and never again"
	case matchesAny(secrets, name) && (v.repeats >= 10 && v.otherClientShare() < 0.2 || unique >= 0.5 && random):
		return noise, "by its name and its values it belongs to one client or one request"
	case v.requests >= 50 && unique >= leastUnique && v.topShare() < flatShare && random,
		v.requests >= 50 && unique >= 0.9 && v.isNumeric():
		return noise, fmt.Sprintf("%.0f %% of its requests bring a new value, which no person typed", 100*unique)
	case v.repeats >= 50 && !v.isShared(0.1) && v.distinct.count() >= 20:
		return noise, fmt.Sprintf("each value belongs to one client: the next request is another's in %.0f %%",
			100*v.otherClientShare())
	}
	switch {
	case v.topShare() >= 0.98:
		return constant, "nearly always the same value"
	case v.requests >= 50 && unique >= 0.9:
		return text, fmt.Sprintf("%.0f %% of its requests bring a new value", 100*unique)
	case v.distinct.count() < leastValues:
		return setting, fmt.Sprintf("only %.0f values", v.distinct.count())
	}
	return content, ""
}

type ignored struct {
	glob     string
	requests int64
	why      string
}

const maxIgnored = 40

// usual are the parameters of advertising links and the cache-busters of common libraries, which are ignored even if
// the log does not have them.
var usual = []string{"utm_*", "gclid", "fbclid", "msclkid", "_"}

// findNoise returns the parameters that are noise at every path at which they are tracked: by their values, or, for
// trackers that are too rare to be tracked, by their names.
func (s *survey) findNoise(p *paths) []ignored {
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
	for _, t := range p.buildTemplates() {
		for name, n := range t.names {
			if matchesAny(trackers, name) && found[name] == nil {
				found[name] = &ignored{glob: name, requests: n, why: "a tracking parameter by its name"}
			}
		}
	}
	var all []ignored
	for name, i := range found {
		if !kept[name] && !matchesAny(newGlobs(usual...), name) {
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
