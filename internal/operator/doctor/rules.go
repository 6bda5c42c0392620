package doctor

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/rules"
)

// Unparsed returns the finding for a configuration file that is wrong. Each error names file, line and field.
func Unparsed(path string, err error) Finding {
	return Finding{Level: Fail, What: err.Error(), Where: path,
		Why: "no program starts with this file, and a running one ignores it at reload",
		Fix: "hotparam config validate " + path}
}

// Rules judges the rules of a file. shared is true if Redis is configured.
func Rules(set *rules.Set, path string, shared bool, now time.Time) []Finding {
	l := &list{where: cmp.Or(path, "defaults (no --config)")}
	if len(set.Rules) == 0 {
		l.addFailure(Finding{What: "there is no rule",
			Why: "no program starts with this file, and a running one keeps the rules that it has",
			Fix: `rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}}]`})
	}
	before := len(l.findings)
	for _, r := range set.Rules {
		l.reportRule(r, shared)
	}
	for _, o := range set.Overrides {
		l.reportOverride(o, now)
	}
	if len(l.findings) == before && len(set.Rules) > 0 {
		l.addOK("rules: %d, overrides: %d; each can take effect", len(set.Rules), len(set.Overrides))
	}
	l.reportTrustedProxies(set)
	l.reportParseAs(set)
	return l.findings
}

// reportTrustedProxies reports networks of trusted proxies that hold most clients.
func (l *list) reportTrustedProxies(set *rules.Set) {
	for _, p := range set.IP.TrustedProxies {
		if rules.IsMostClients(p) {
			l.addWarning(Finding{What: "ip.trusted_proxies has " + p.String() + ": nearly every client is trusted",
				Why: "each client names any address as its own, so that neither per-IP windows nor blocks of clients hold",
				Fix: "ip: {trusted_proxies: [10.0.0.0/24]}   # the networks of your proxies, and nothing else"})
		}
	}
}

// reportParseAs reports the presets by which the rules read targets, and the rules without parse_as.
func (l *list) reportParseAs(set *rules.Set) {
	var without []string
	for _, r := range set.Rules {
		if r.ParseAs.Known {
			l.addOK("rule %s: reads targets as its upstream does: %s", r.Name, r.ParseAs)
		} else {
			without = append(without, r.Name)
		}
	}
	if len(without) > 0 {
		l.addWarning(Finding{What: "no parse_as is set for " + strings.Join(without, ", "),
			Why: "a hot key is evaded by another spelling that the framework behind takes for the same (/Topic, /topic/, id[]=)",
			Fix: "parse_as: express4   # the framework behind; strict if it is not known. docs/evasion.md has the list"})
	}
}

// maxUnlimitedBurst is the maximum time for which a burst may delay a limit.
const maxUnlimitedBurst = 60 * time.Second

func (l *list) reportRule(r *rules.Rule, shared bool) {
	name := "rule " + r.Name
	if r.PerClient != nil && !shared && r.PerClient.IsShared() {
		l.addWarning(Finding{What: name + ": its windows of clients are shared by all limiters, and no Redis is configured",
			Why: "each process has the whole window of a client for itself",
			Fix: "redis: {addr: [\"127.0.0.1:6379\"]}   # where one process is all there is: scope: instance"})
	}
	if r.MinCount() == 0 {
		l.addOK("%s: limits each client, and no key is hot", name)
		return
	}
	if r.MinCount() <= 1 && r.Cost == "" {
		l.addWarning(Finding{What: fmt.Sprintf("%s: a single request in %v makes a key hot", name, r.Hot.Window),
			Why: "every key that is asked for is published and limited: nothing is left of \"only the hot ones\"",
			Fix: fmt.Sprintf("hot: {rate: 100, window: %v}   # more than one request in a window", r.Hot.Window)})
	}
	if !r.Limit.Set && r.PerClient != nil {
		return
	}
	if !r.Limit.Set {
		fix := fmt.Sprintf("limit: {algorithm: token_bucket, rate: %g, burst: %g}", r.Hot.Rate, 2*r.Hot.Rate)
		if r.Cost != "" { // its rate is not of requests, which a limit counts
			fix = "limit: {algorithm: in_flight, limit: 1}   # one request for a hot key at a time"
		}
		l.addWarning(Finding{What: name + ": has no limit", Why: "its hot keys are found and shown, and never limited",
			Fix: fix})
		return
	}
	if r.Limit.Mode == hottype.ModeShadow {
		l.addWarning(Finding{What: name + ": its limit is in shadow mode",
			Why: "requests that it would deny are counted and allowed", Fix: "limit: {mode: enforce}"})
	}
	if r.Limit.Scope == rules.ScopeCluster && !shared {
		l.addWarning(Finding{What: name + ": its limit is shared by all limiters, and no Redis is configured",
			Why: "each process has the whole limit for itself",
			Fix: "redis: {addr: [\"127.0.0.1:6379\"]}   # where one process is all there is: limit: {scope: instance}"})
	}
	l.ruleBurst(name, r)
}

// ruleBurst reports a bucket that is so deep that the limit begins long after the key is hot.
func (l *list) ruleBurst(name string, r *rules.Rule) {
	s := r.Limit.Spec
	if r.Cost != "" || !limitcore.Spec(s).Refills() || s.Window <= 0 || s.Limit <= 0 {
		return
	}
	perSecond := float64(s.Limit) / s.Window.Seconds()
	if r.Hot.Rate <= perSecond {
		return // a key at its threshold is within its limit, which may be intended
	}
	until := time.Duration(float64(s.Burst) / (r.Hot.Rate - perSecond) * float64(time.Second))
	if until > maxUnlimitedBurst {
		l.addWarning(Finding{
			What: fmt.Sprintf("%s: at its threshold of %g/s a key spends the burst of %d for %v before "+
				"anything is denied", name, r.Hot.Rate, s.Burst, until.Round(time.Second)),
			Why: "most bursts of interest are over by then",
			Fix: fmt.Sprintf("limit: {rate: %g, burst: %.0f}", perSecond, 2*perSecond)})
	}
}

func (l *list) reportOverride(o rules.Override, now time.Time) {
	name := fmt.Sprintf("override of %s", o.Target())
	switch {
	case o.Expired(now):
		l.addWarning(Finding{What: name + " ended at " + o.Until.UTC().Format(time.RFC3339),
			Why: "it has no effect any more", Fix: "take it out of the file, or give it another until"})
	case !o.Schedule.IsZero() && o.Window(now) == rules.Window{}:
		l.addWarning(Finding{
			What: name + ": no window of its schedule " + o.Schedule.String() + " comes before it ends",
			Why:  "it has no effect any more", Fix: "give it another until"})
	}
}

// Counters judges whether there are enough counters for the rates that the rules, or o, expect.
func Counters(set *rules.Set, o detect.Options, path string) []Finding {
	l := &list{where: cmp.Or(path, "defaults (no --config)")}
	if err := detect.Check(set, o); err != nil {
		l.addFailure(Finding{What: strings.TrimPrefix(err.Error(), "detect: "),
			Why: "the aggregator does not start with this",
			Fix: "detect: {counters: …}   # as many as the finding says"})
	}
	return l.findings
}

type CacheInspection struct {
	// Admin is the URL of the program's admin listener, or "" if no listener was named.
	Admin string
	// Err is the reason why the listener does not answer.
	Err string
	// Present is false if the program has no response cache.
	Present bool
	Silent  []SilentUpstream
}

// SilentUpstream is an upstream whose responses to the requests of a rule were stored although they came with neither
// Cache-Control nor Vary.
type SilentUpstream struct {
	Rule, Upstream string // "" is the default upstream
	Stored         float64
}

// Cache judges the header fields that upstreams send with responses that the cache stores. Without an admin listener it
// reports the rules that were not judged.
func Cache(in CacheInspection, set *rules.Set) []Finding {
	l := &list{where: "response cache at " + in.Admin}
	switch {
	case in.Admin == "":
		l.cacheUnknown(set)
	case in.Err != "":
		l.addFailure(Finding{What: "it does not answer: " + in.Err,
			Why: "the headers of stored responses cannot be judged",
			Fix: "hotparam doctor --admin http://127.0.0.1:9180   # and --token-file FILE if it requires a token"})
	case !in.Present:
		l.addUnknown("the headers of stored responses",
			"this program has no response cache; name a limiter-sidecar with proxy.listen, or hotparam serve, by --admin")
	case len(in.Silent) == 0:
		l.addOK("each stored response came with Cache-Control or Vary")
	}
	for _, s := range in.Silent {
		l.cacheSilent(s)
	}
	return l.findings
}

func (l *list) cacheSilent(s SilentUpstream) {
	upstream := "the default upstream"
	if s.Upstream != "" {
		upstream = "upstream " + s.Upstream
	}
	l.addWarning(Finding{
		What: fmt.Sprintf("rule %s: %.0f stored responses of %s came with neither Cache-Control nor Vary",
			s.Rule, s.Stored, upstream),
		Why: "if they differ by language, device or another header field, one client's response is served to all",
		Fix: "let the upstream send Cache-Control (public, or private for responses to one client), or Vary with the fields" +
			" they differ by;\nlist those fields in the rule: cache: {vary: [Accept-Encoding, Accept-Language]}"})
}

func (l *list) cacheUnknown(set *rules.Set) {
	var names []string
	for _, r := range set.Rules {
		if r.Cache != nil {
			names = append(names, r.Name)
		}
	}
	if len(names) > 0 {
		l.where = "response cache"
		l.addWarning(Finding{What: "the headers of stored responses are not known, for " + strings.Join(names, ", "),
			Why: "one client's response is served to all if the upstream sends neither Cache-Control nor Vary",
			Fix: "hotparam doctor --admin http://127.0.0.1:9180   # the running program with the cache"})
	}
}
