package graphite

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// maxFlush is the longest flush interval of which seconds can be made with
	// any sense.
	maxFlush = 5 * time.Minute
	// maxLag is how far behind Graphite may be and still be taken for the
	// present.
	maxLag = 30
	// maxQuery bounds the targets of one request, in bytes.
	maxQuery = maxTarget + 100
)

// plan is what a poll asks for.
type plan struct {
	queries  []string // the targets of one request each, encoded
	window   int64    // longest window of the rules, in seconds
	lookback int64    // how far back is asked, in seconds
}

// newPlan makes the targets of all rules and packs them into few requests.
func newPlan(cfg Config, set *rules.Set) *plan {
	p := &plan{window: 1}
	flush := int64(cfg.Flush / time.Second)
	var query string
	add := func(target string) {
		t := "target=" + url.QueryEscape(target)
		switch {
		case query == "":
			query = t
		case len(query)+len(t) >= maxQuery:
			p.queries = append(p.queries, query)
			query = t
		default:
			query += "&" + t
		}
	}
	for _, r := range set.Rules {
		p.window = max(p.window, int64(r.Hot.Window/time.Second))
		for _, t := range cfg.targetsOf(r) {
			add(t)
		}
	}
	if query != "" {
		p.queries = append(p.queries, query)
	}
	// Carbon keeps a flush of n seconds in buckets of n seconds: what is known
	// about a moment may be written up to n seconds behind it.
	p.lookback = p.window + 2*flush + maxLag
	return p
}

// targetsOf is what is asked for the keys of one rule.
func (c Config) targetsOf(r *rules.Rule) []string {
	threshold := strconv.FormatFloat(c.threshold(r), 'f', -1, 64)
	if targets, ok := c.Targets[r.Name]; ok {
		out := make([]string, len(targets))
		for i, t := range targets {
			out[i] = strings.ReplaceAll(t, "{threshold}", threshold)
		}
		return out
	}
	return []string{"maximumAbove(" + c.pathOf(r) + "," + threshold + ")"}
}

// pathOf is the path of all metrics of a rule. The resource of the catch-all
// can be anything, also that of another rule: the ledger counts each series
// once however often it is answered.
func (c Config) pathOf(r *rules.Rule) string {
	name := string(c.Names.Append(nil, hottype.Key(r.Name)))
	resource := strings.TrimPrefix(name, c.Names.Prefix+".")
	resource, _, _ = strings.Cut(resource, ".hot_param.")
	if r.IsCatchAll() {
		resource = "*"
	}
	path := c.Prefix + "." + c.Names.Prefix + "." + resource + ".hot_param.*"
	if c.Suffix != "" {
		path += "." + c.Suffix
	}
	return path
}

// threshold is what some bucket of a key has to exceed before the rule can
// judge it hot, or hot still. It is a little below the mark, because
// maximumAbove leaves out what only equals it. A share is of all requests, and
// a surge is over what the key used to have: such rules need everything that is
// not idle.
func (c Config) threshold(r *rules.Rule) float64 {
	if r.Hot.Share > 0 || r.Hot.Surge > 0 {
		return 0
	}
	perSecond := r.Hot.Rate * r.Hot.ReleaseRatio
	if c.Suffix != "rate" {
		perSecond *= c.Flush.Seconds()
	}
	const little = 0.999
	return math.Round(perSecond*little*1e6) / 1e6
}
