package hotparam

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// RuleSet is what most rules files say, as Go values for [NewRules]. What is left
// zero has the default of the file; docs/rules.md documents each field under
// its name there. Whatever else a file can say, only a file says.
type RuleSet struct {
	// Namespace is the tenant; default "default".
	Namespace string
	// ParseAs is how the service behind reads a request: "express4", "django", …, or
	// "strict", which is safe for any.
	ParseAs string
	// Upstreams say what those have to hold that Adaptive limits follow. One that is not
	// named here learns it while nothing is limited.
	Upstreams []Upstream
	Rules     []Rule
	IP        IPLimits
}

// Rule says which requests are counted under which key, when a key is hot, and what
// limits it then. The first rule that matches a request counts it.
type Rule struct {
	// Name begins the keys of the rule: "topic" in "topic?id=42". The rule "*" takes
	// what no other rule does.
	Name string
	// Path is a pattern of net/http.ServeMux, "" for all paths. No Methods or Hosts:
	// all of them.
	Path           string
	Methods, Hosts []string
	// Params tell one key from another: "id" of the query, "path.id" of the pattern,
	// "header.X-Tenant", or "*" for the whole query without those in Ignore.
	Params, Ignore []string
	Hot            HotWhen
	// Limit is what a hot key is held to; zero: it is only found.
	Limit limit.Spec
	// Fair divides the limit of a hot key among its clients: while it refuses, light ones keep what they ask for and
	// heavy ones share the rest.
	Fair bool
	// Adaptive lets the rate of a hot key follow what its upstream bears. Limit may then be left out.
	Adaptive Adaptive
	// InFlight bounds the requests for a hot key that run at the same time, in place of Limit.
	InFlight InFlight
	// RefundStatus are the statuses of answers with which a request gets back what it took of Limit.
	RefundStatus hottype.Statuses
	// Cache answers a hot key from the response cache; nil: not. What is left zero has the default of the file.
	Cache *hottype.Serve
	// Mode is hottype.ModeShadow to count what the limit would deny, and deny nothing.
	Mode hottype.Mode
}

// HotWhen says when a key is hot: when any of Rate, Share and Surge says so, of which
// at least one is set.
type HotWhen struct {
	Rate       float64 // requests per second, averaged over Window
	Share      float64 // of the rule's requests, above 0 and at most 1
	Surge      float64 // times as many requests as the key used to have, above 1
	MinRate    float64 // requests per second that Share and Surge need beside them
	MaxRate    float64 // requests per second that all keys together are expected to have
	MinClients int     // how many clients it takes; fewer are a loop
	MaxHot     int     // how many keys may be hot at a time

	Window       time.Duration // default 5 s
	Cooldown     time.Duration // how long below ReleaseRatio before it is cold; default 10 s
	ReleaseRatio float64       // of the threshold; default 0.7
}

// AtRate is hot at so many requests per second.
func AtRate(perSecond float64) HotWhen { return HotWhen{Rate: perSecond} }

// IPLimits are the windows of every client, whatever it asks for, and the clients that
// have none. Networks are written "10.0.0.0/8".
type IPLimits struct {
	Fixed, Sliding         IPWindow
	InFlight               InFlight
	TrustedProxies, Exempt []string
}

// NewRules makes rules of Go values. They are judged as the file that says the same
// would be, and errors name the field: "Rules[0].Hot.Rate".
func NewRules(s RuleSet) (*Rules, error) {
	set, err := rules.ParseValue("RuleSet", s.file())
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", s.inGo(err))
	}
	return &Rules{set: set}, nil
}

// file is the set as the rules file has it.
func (s RuleSet) file() fields {
	var list, upstreams []fields
	for _, r := range s.Rules {
		list = append(list, r.file())
	}
	for _, u := range s.Upstreams {
		upstreams = append(upstreams, u.file())
	}
	return present(fields{
		"namespace": s.Namespace, "parse_as": s.ParseAs, "upstreams": upstreams, "rules": list,
		"ip": present(fields{
			"fixed": s.IP.Fixed.file(), "sliding": s.IP.Sliding.file(), "in_flight": s.IP.InFlight.file(),
			"trusted_proxies": s.IP.TrustedProxies, "exempt": s.IP.Exempt,
		}),
	})
}

func (r Rule) file() fields {
	h := r.Hot
	f := present(fields{
		"name": r.Name, "params": r.Params, "ignore": r.Ignore, "limit": r.limitFile(),
		"match": present(fields{"path": r.Path, "methods": r.Methods, "hosts": r.Hosts}),
		"hot": present(fields{
			"rate": rate(h.Rate), "share": h.Share, "surge": h.Surge, "min_rate": rate(h.MinRate),
			"max_rate":    rate(h.MaxRate),
			"min_clients": h.MinClients, "max_hot": h.MaxHot,
			"window": h.Window, "cooldown": h.Cooldown, "release_ratio": h.ReleaseRatio,
		}),
	})
	if r.Cache != nil {
		f["cache"] = serveFile(r.Cache) // which may be empty
	}
	return f
}

func serveFile(s *hottype.Serve) fields {
	f := present(fields{
		"ttl": s.TTL, "stale": s.Stale, "stale_if_error": s.StaleIfError, "vary": s.Vary, "max_body": s.MaxBody,
		"wait": s.Wait,
	})
	if s.StripCookies {
		f["cookies"] = "strip"
	}
	return f
}

// rate is a number of requests per second without an exponent, "" for 0.
func rate(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return strconv.FormatFloat(perSecond, 'f', -1, 64)
}

// fields is a mapping of the rules file.
type fields map[string]any

// present leaves out what is zero or empty.
func present(f fields) fields {
	maps.DeleteFunc(f, func(_ string, v any) bool {
		r := reflect.ValueOf(v)
		return r.IsZero() || r.Kind() == reflect.Map && r.Len() == 0
	})
	return f
}
