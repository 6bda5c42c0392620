package doctor

import (
	"fmt"
	"strings"

	"github.com/hotparam/pipeline/internal/rules"
)

// CacheInspection is what a running program reports of its response cache.
type CacheInspection struct {
	// Admin is the URL of its admin listener, "" if none was named.
	Admin string
	// Err is why it does not answer.
	Err string
	// Present is false if the program has no response cache.
	Present bool
	Silent  []SilentUpstream
}

// SilentUpstream is an upstream whose responses to the requests of a rule were stored although they
// came with neither Cache-Control nor Vary.
type SilentUpstream struct {
	Rule, Upstream string // the upstream "" is the default one
	Stored         float64
}

// Cache judges what upstreams say about responses that the cache stores. Without an admin listener it
// reports which rules were not judged.
func Cache(in CacheInspection, set *rules.Set) []Finding {
	l := &list{where: "response cache at " + in.Admin}
	switch {
	case in.Admin == "":
		l.cacheUnknown(set)
	case in.Err != "":
		l.add(Fail, Finding{What: "it does not answer: " + in.Err,
			Why: "what upstreams send with the responses that are stored cannot be judged",
			Fix: "hotparam doctor --admin http://127.0.0.1:9180   # and --token-file FILE if it requires a token"})
	case !in.Present:
		l.unknown("what upstreams send with stored responses",
			"this program has no response cache; name a limiter-sidecar with proxy.listen, or hotparam serve, by --admin")
	case len(in.Silent) == 0:
		l.ok("each stored response came with Cache-Control or Vary")
	}
	for _, s := range in.Silent {
		l.cacheSilent(s)
	}
	return l.findings
}

// cacheSilent is the finding about an upstream that leaves open which clients may share its responses.
func (l *list) cacheSilent(s SilentUpstream) {
	upstream := "the default upstream"
	if s.Upstream != "" {
		upstream = "upstream " + s.Upstream
	}
	l.add(Warn, Finding{
		What: fmt.Sprintf("rule %s: %.0f stored responses of %s came with neither Cache-Control nor Vary",
			s.Rule, s.Stored, upstream),
		Why: "if they differ by language, device or another header field, one client's response is served to all",
		Fix: "let the upstream send Cache-Control (public, or private for responses to one client), or Vary with the fields" +
			" they differ by;\nlist those fields in the rule: cache: {vary: [Accept-Encoding, Accept-Language]}"})
}

// cacheUnknown names the rules with a cache that no program was named for.
func (l *list) cacheUnknown(set *rules.Set) {
	var names []string
	for _, r := range set.Rules {
		if r.Cache != nil {
			names = append(names, r.Name)
		}
	}
	if len(names) > 0 {
		l.where = "response cache"
		l.add(Warn, Finding{What: "what upstreams send with stored responses is not known, for " + strings.Join(names, ", "),
			Why: "one client's response is served to all if the upstream sends neither Cache-Control nor Vary",
			Fix: "hotparam doctor --admin http://127.0.0.1:9180   # the running program with the cache"})
	}
}
