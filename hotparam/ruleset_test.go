package hotparam

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// Rules of Go values equal the rules of the file with the same content.
func TestRulesOfGoAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		set, file := drawRuleSet(rt)
		inGo, err := NewRules(set)
		if err != nil {
			rt.Fatalf("%+v: %v", set, err)
		}
		inFile, err := ParseRules("rules.yaml", []byte(file))
		if err != nil {
			rt.Fatalf("%s: %v", file, err)
		}
		if len(inGo.set.Warnings) != len(inFile.set.Warnings) {
			rt.Fatalf("%s:\nwarnings %q, in the file %q", file, inGo.set.Warnings, inFile.set.Warnings)
		}
		inGo.set.Warnings, inFile.set.Warnings = nil, nil // warnings name the place
		if !reflect.DeepEqual(inGo.set, inFile.set) {
			rt.Fatalf("%s:\n%+v, in the file\n%+v", file, inGo.set.Rules[0], inFile.set.Rules[0])
		}
	})
}

// drawRuleSet draws a set and writes its file without the code under test.
func drawRuleSet(rt *rapid.T) (rule.Set, string) {
	set := rule.Set{Namespace: "shop"}
	set.ParseAs.Preset = "strict"
	file := "namespace: shop\nparse_as: strict\nrules:\n"
	for i := range rapid.IntRange(1, 4).Draw(rt, "rules") {
		name := fmt.Sprintf("rule_%d", i)
		r := rule.Rule{
			Name:   name,
			Match:  rule.Match{Path: "/" + name + "/{x}"},
			Params: []rule.Param{{Name: "id"}, {Name: "path.x"}},
		}
		file += fmt.Sprintf("- name: %s\n  params: [id, path.x]\n  match: {path: '%s'", name, r.Match.Path)
		if rapid.Bool().Draw(rt, "matches") {
			r.Match.Methods, r.Match.Hosts = []string{"GET", "HEAD"}, []string{"example.org"}
			file += ", methods: [GET, HEAD], hosts: [example.org]"
		}
		var hot, held string
		r.Hot, hot = drawHot(rt)
		var spec limit.Spec
		if spec, held = drawLimit(rt); held != "" {
			r.Limit = rule.LimitOf(spec)
		}
		file += "}\n  hot: {" + hot + "}\n"
		if held != "" && rapid.Bool().Draw(rt, "shadow") {
			r.Limit.Mode = hottype.ModeShadow
			held += ", mode: shadow"
		}
		if held != "" && r.Limit.Algorithm != limit.SlidingLog && r.Limit.Mode == "" &&
			rapid.Bool().Draw(rt, "refund") {
			r.Limit.RefundStatus = hottype.Statuses{
				{From: 304, To: 304},
				{From: 500, To: 599},
				{From: 404, To: 404},
				{From: 405, To: 405},
			}
			held += ", refund_status: [304, 5XX, 404, 405]"
		}
		if held != "" && r.Limit.Block == 0 && limitcore.Spec(spec).Refills() && rapid.Bool().Draw(rt, "fair") {
			r.Limit.Fair = true
			held += ", fair: true"
		}
		if held == "" {
			held = drawOther(rt, &r)
		}
		if held != "" {
			file += "  limit: {" + held + "}\n"
		}
		switch rapid.IntRange(0, 2).Draw(rt, "cache") {
		case 1:
			r.Cache = &hottype.CachePolicy{}
			file += "  cache: {}\n"
		case 2:
			r.Cache = &hottype.CachePolicy{
				TTL: 3 * time.Second, Stale: time.Minute, StaleIfError: time.Hour,
				Vary:         []string{"Accept-Encoding", "X-Lang"},
				StripCookies: true, MaxBody: 4096, Wait: 50 * time.Millisecond,
			}
			file += "  cache: {ttl: 3s, stale: 1m, stale_if_error: 1h, vary: [X-Lang, Accept-Encoding], cookies: strip, max_body: 4KiB, wait: 50ms}\n"
		}
		set.Rules = append(set.Rules, r)
	}
	if rapid.Bool().Draw(rt, "everything else") {
		set.Rules = append(set.Rules, rule.Rule{Name: "*", Params: []rule.Param{{Name: "*"}}, Ignore: []string{"utm_*"},
			Hot: rule.Hot{Rate: 2_500_000}})
		file += "- {name: '*', params: ['*'], ignore: ['utm_*'], hot: {rate: 2500000}}\n"
	}
	if rapid.Bool().Draw(rt, "ip") {
		set.IP = rule.IP{TrustedProxies: []string{"10.0.0.0/8"},
			Exempt: []string{"192.0.2.1"}}
		set.IP.Fixed, set.IP.Sliding = &rule.Window{
			Limit:  50,
			Window: time.Second,
		}, &rule.Window{
			Limit:  1000,
			Window: time.Minute,
		}
		set.IP.InFlight = &rule.InFlight{Limit: 7, Lease: time.Minute}
		set.Upstreams = []rule.Upstream{
			{Name: "shop", Target: rule.Target{Latency: 250 * time.Millisecond, Quantile: 0.95, Errors: 0.05}},
			{Name: "default"},
		}
		file += "upstreams: [{name: shop, target: {latency: 250ms, quantile: 0.95, errors: 0.05}}, {name: default}]\n" +
			"ip:\n  in_flight: {limit: 7, lease: 1m}\n  fixed: {limit: 50, window: 1s}\n  sliding: {limit: 1000, window: 60s}\n" +
			"  trusted_proxies: [10.0.0.0/8]\n  exempt: [192.0.2.1]\n"
	}
	return set, file
}

// drawOther draws the fields that limit beside a Spec or instead of it.
func drawOther(rt *rapid.T, r *rule.Rule) (file string) {
	switch rapid.IntRange(0, 4).Draw(rt, "other") {
	case 1:
		r.Limit = &rule.Limit{Algorithm: "in_flight"}
		r.Limit.Limit = 5
		return "algorithm: in_flight, limit: 5"
	case 2:
		r.Limit = &rule.Limit{Algorithm: "in_flight", Lease: 2 * time.Second}
		r.Limit.Limit = 5
		return "algorithm: in_flight, limit: 5, lease: 2s"
	case 3:
		r.Limit = &rule.Limit{
			Adaptive: true,
			Min:      rule.Rate{N: 1, Per: 2 * time.Second},
			Max:      rule.Rate{N: 2000, Per: time.Second},
		}
		return "adaptive: true, min: 0.5, max: 2000"
	case 4:
		r.Limit = rule.LimitOf(limit.PerSecond(100))
		r.Limit.Adaptive, r.Limit.Min, r.Limit.Max, r.Limit.Upstream = true, rule.Rate{
			N:   20,
			Per: time.Second,
		}, rule.Rate{
			N:   2000,
			Per: time.Second,
		}, "default"
		return "rate: 100, burst: 100, adaptive: true, min: 20, max: 2000"
	}
	return ""
}

func drawHot(rt *rapid.T) (h rule.Hot, file string) {
	thousandths := rapid.IntRange(1, 1_000_000).Draw(rt, "rate")
	h = rule.Hot{Rate: float64(thousandths) / 1000}
	file = fmt.Sprintf("rate: %d.%03d", thousandths/1000, thousandths%1000)
	if rapid.Bool().Draw(rt, "relative") {
		h.Share, h.Surge, h.MinRate = 0.25, 1.5, 7
		file += ", share: 0.25, surge: 1.5, min_rate: 7"
	}
	if rapid.Bool().Draw(rt, "more") {
		h.MinClients, h.MaxHot, h.MaxRate = 3, 100, 4_000_000
		h.Window, h.Cooldown, h.ReleaseRatio = 30*time.Second, 1500*time.Millisecond, 0.5
		file += ", min_clients: 3, max_hot: 100, max_rate: 4000000, window: 30s, cooldown: 1500ms, release_ratio: 0.5"
	}
	return h, file
}

func drawLimit(rt *rapid.T) (s limit.Spec, file string) {
	n := rapid.Int64Range(1, 1000).Draw(rt, "n")
	seconds := rapid.Int64Range(1, 100).Draw(rt, "seconds")
	window := time.Duration(seconds) * time.Second
	rate := fmt.Sprintf("rate: %d/%ds, burst: %d", n, seconds, n+1)
	amount := fmt.Sprintf("limit: %d, window: %ds", n, seconds)
	switch rapid.IntRange(0, 9).Draw(rt, "limit") {
	case 0:
		return limit.Spec{}, ""
	case 1:
		return limit.PerSecond(n), fmt.Sprintf("algorithm: token_bucket, rate: %d, burst: %d", n, n)
	case 2:
		s = limit.Spec{Algorithm: limit.TokenBucket, Limit: n, Window: window, Burst: n + 1, InitialDeficit: 1}
		file = "algorithm: token_bucket, initial_tokens: " + fmt.Sprint(n) + ", " + rate
	case 3:
		s = limit.Spec{Algorithm: limit.GCRA, Limit: n, Window: window, Burst: n + 1, Wait: time.Second}
		file = "algorithm: gcra, wait: 1s, " + rate
	case 4:
		s, file = limit.Spec{Algorithm: limit.LeakyBucket, Limit: n, Window: window, Burst: n + 1},
			"algorithm: leaky_bucket, "+rate
	case 5:
		s, file = limit.Spec{Algorithm: limit.FixedWindow, Limit: n, Window: window}, "algorithm: fixed_window, "+amount
	case 6:
		s, file = limit.Spec{Algorithm: limit.SlidingWindow, Limit: n, Window: window},
			"algorithm: sliding_window, "+amount
	case 7:
		s = limit.Spec{Algorithm: limit.BucketedWindow, Limit: n, Window: window, Buckets: 4}
		file = "algorithm: bucketed_window, buckets: 4, " + amount
	case 8:
		s = limit.Spec{Algorithm: limit.WarmingUp, Limit: n, Window: window, WarmUp: 5 * time.Second, Wait: time.Second}
		file = fmt.Sprintf("algorithm: warming_up, rate: %d/%ds, warm_up: 5s, wait: 1s", n, seconds)
	default:
		s, file = limit.Spec{Algorithm: limit.AnchoredWindow, Limit: n, Window: window},
			"algorithm: anchored_window, "+amount
	}
	if rapid.Bool().Draw(rt, "block") {
		s.Block, s.BlockMax = time.Second, time.Minute
		file += ", block: 1s, block_max: 1m"
	}
	return s, file
}

// The errors are the same as for a file, and name the field in Go.
func TestErrorsOfGoValues(t *testing.T) {
	t.Parallel()
	topic := rule.Rule{
		Name:   "topic",
		Match:  rule.Match{Path: "/topic"},
		Params: []rule.Param{{Name: "id"}},
		Hot:    rule.Hot{Rate: 50},
	}
	per := func(n int64) rule.Rate { return rule.Rate{N: n, Per: time.Second} }
	for want, change := range map[string]func(*rule.Set){
		"Rules[0].Name: is missing": func(s *rule.Set) { s.Rules[0].Name = "" },
		`Rules[0].Params[0]: "cookie.sid": there is no source "cookie"; it must be one of path.NAME, header.NAME`: func(s *rule.Set) {
			s.Rules[0].Params = rule.Params("cookie.sid")
		},
		"Rules[0].Params: is missing":           func(s *rule.Set) { s.Rules[0].Params = nil },
		"Rules[0].Hot: is missing":              func(s *rule.Set) { s.Rules[0].Hot = rule.Hot{} },
		"Rules[0].Hot.MinRate: is missing":      func(s *rule.Set) { s.Rules[0].Hot.Share = 0.2 },
		`Rules[0].Hot.Rate: "-1" is not a rate`: func(s *rule.Set) { s.Rules[0].Hot.Rate = -1 },
		"Rules[0].Hot.Window: 1.5s is not between": func(s *rule.Set) {
			s.Rules[0].Hot.Window = 1500 * time.Millisecond
		},
		"Rules[0].Match.Path:": func(s *rule.Set) { s.Rules[0].Match.Path = "topic" },
		"Rules[0].Match.Methods[0]:": func(s *rule.Set) {
			s.Rules[0].Match.Methods = []string{"get"}
		},
		`Rules[0].Limit.Mode: "shade" is not one of`: func(s *rule.Set) { s.Rules[0].Limit.Mode = "shade" },
		`Rules[0].Limit.Rate: "0/1s" is not a rate`:  func(s *rule.Set) { s.Rules[0].Limit.Rate = per(0) },
		"Rules[0].Limit.InitialTokens: -10 is not": func(s *rule.Set) {
			n := int64(-10)
			s.Rules[0].Limit.InitialTokens = &n
		},
		`Rules[0].Limit.Algorithm: "bucket" is not one of`: func(s *rule.Set) { s.Rules[0].Limit.Algorithm = "bucket" },
		"IP.Fixed.Window: is missing":                      func(s *rule.Set) { s.IP.Fixed = &rule.Window{Limit: 3} },
		"IP.Fixed.Window: 25h0m0s is not between": func(s *rule.Set) {
			s.IP.Fixed = &rule.Window{Limit: 3, Window: 25 * time.Hour}
		},
		`IP.TrustedProxies[0]: "proxy" is neither`: func(s *rule.Set) { s.IP.TrustedProxies = []string{"proxy"} },
		"Rules[0].Cache.TTL: -1s is not between": func(s *rule.Set) {
			s.Rules[0].Cache = &hottype.CachePolicy{TTL: -time.Second}
		},
		`Rules[0].Cache.MaxBody: "-1" is not between`: func(s *rule.Set) { s.Rules[0].Cache = &hottype.CachePolicy{MaxBody: -1} },
		"Rules[0].Cache.Vary[0]: answers that differ by": func(s *rule.Set) {
			s.Rules[0].Cache = &hottype.CachePolicy{Vary: []string{"Cookie"}}
		},
		"Rules[0].Limit.Fair: fixed_window has no level": func(s *rule.Set) {
			s.Rules[0].Limit = rule.LimitOf(limit.Spec{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second})
			s.Rules[0].Limit.Fair = true
		},
		"Rules[0].Limit.Min: is missing": func(s *rule.Set) {
			s.Rules[0].Limit.Adaptive, s.Rules[0].Limit.Max = true, per(5)
		},
		"Rules[0].Limit.Min: 7 is more than max": func(s *rule.Set) {
			l := s.Rules[0].Limit
			l.Adaptive, l.Min, l.Max = true, per(7), per(5)
		},
		"Rules[0].Limit.Rate: 10 is not between min and max": func(s *rule.Set) {
			l := s.Rules[0].Limit
			l.Adaptive, l.Min, l.Max = true, per(1), per(5)
		},
		`Rules[0].Limit.Upstream: there is no upstream "a"`: func(s *rule.Set) {
			l := s.Rules[0].Limit
			l.Adaptive, l.Min, l.Max, l.Upstream = true, per(1), per(50), "a"
		},
		"Rules[0].Limit.Adaptive: gcra does not adapt": func(s *rule.Set) {
			l := s.Rules[0].Limit
			l.Algorithm, l.Adaptive, l.Min, l.Max = limit.GCRA, true, per(1), per(50)
		},
		"Upstreams[0].Name: is missing": func(s *rule.Set) { s.Upstreams = []rule.Upstream{{URL: "http://a"}} },
		"Upstreams[0].Target.Quantile: 0.2 is not between": func(s *rule.Set) {
			s.Upstreams = []rule.Upstream{{Name: "a", Target: rule.Target{Quantile: 0.2}}}
		},
		`Rules[0].Limit.RefundStatus[0]: "0-99" is not a status`: func(s *rule.Set) { s.Rules[0].Limit.RefundStatus = hottype.Statuses{{From: 0, To: 99}} },
		"Rules[0].Limit.Rate: in_flight has limit": func(s *rule.Set) {
			s.Rules[0].Limit.Algorithm = "in_flight"
		},
		"Rules[0].Limit.Limit: -3 is not": func(s *rule.Set) {
			s.Rules[0].Limit = &rule.Limit{Algorithm: "in_flight"}
			s.Rules[0].Limit.Limit = -3
		},
		"Rules[0].Limit.Lease: 1ms is not between": func(s *rule.Set) {
			s.Rules[0].Limit = &rule.Limit{Algorithm: "in_flight", Lease: time.Millisecond}
		},
		"IP.InFlight.Limit: is missing": func(s *rule.Set) {
			s.IP.InFlight = &rule.InFlight{Lease: time.Second}
		},
		`Namespace: "A B" cannot be used`:        func(s *rule.Set) { s.Namespace = "A B" },
		`ParseAs.Preset: "rail" is not a preset`: func(s *rule.Set) { s.ParseAs.Preset = "rail" },
		"hotparam: rules: Set: Rules[1].Name: \"topic\" is the name of the rule at Rules[0] too": func(s *rule.Set) {
			s.Rules = append(s.Rules, topic)
		},
	} {
		set := rule.Set{Rules: []rule.Rule{topic}}
		set.Rules[0].Limit = rule.LimitOf(limit.PerSecond(10))
		change(&set)
		if _, err := NewRules(set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
