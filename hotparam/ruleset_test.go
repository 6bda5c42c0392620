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
	"github.com/hotparam/pipeline/internal/limitcore"
)

// Rules of Go values are the rules of the file that says the same.
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
		inGo.set.Warnings, inFile.set.Warnings = nil, nil // which say where
		if !reflect.DeepEqual(inGo.set, inFile.set) {
			rt.Fatalf("%s:\n%+v, in the file\n%+v", file, inGo.set.Rules[0], inFile.set.Rules[0])
		}
	})
}

// drawRuleSet draws a set and writes the file for it by hand.
func drawRuleSet(rt *rapid.T) (RuleSet, string) {
	set := RuleSet{Namespace: "shop", ParseAs: "strict"}
	file := "namespace: shop\nparse_as: strict\nrules:\n"
	for i := range rapid.IntRange(1, 4).Draw(rt, "rules") {
		name := fmt.Sprintf("rule_%d", i)
		r := Rule{Name: name, Path: "/" + name + "/{x}", Params: []string{"id", "path.x"}}
		file += fmt.Sprintf("- name: %s\n  params: [id, path.x]\n  match: {path: '%s'", name, r.Path)
		if rapid.Bool().Draw(rt, "matches") {
			r.Methods, r.Hosts = []string{"GET", "HEAD"}, []string{"example.org"}
			file += ", methods: [GET, HEAD], hosts: [example.org]"
		}
		var hot, held string
		r.Hot, hot = drawHot(rt)
		r.Limit, held = drawLimit(rt)
		file += "}\n  hot: {" + hot + "}\n"
		if held != "" && rapid.Bool().Draw(rt, "shadow") {
			r.Mode = hottype.ModeShadow
			held += ", mode: shadow"
		}
		if held != "" && r.Limit.Algorithm != limit.SlidingLog && r.Mode == "" && rapid.Bool().Draw(rt, "refund") {
			r.RefundStatus = hottype.Statuses{{From: 304, To: 304}, {From: 500, To: 599}, {From: 404, To: 405}}
			held += ", refund_status: [304, 5XX, 404, 405]"
		}
		if held != "" && r.Limit.Block == 0 && limitcore.Spec(r.Limit).Refills() && rapid.Bool().Draw(rt, "fair") {
			r.Fair = true
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
			r.Cache = &hottype.Serve{}
			file += "  cache: {}\n"
		case 2:
			r.Cache = &hottype.Serve{
				TTL: 3 * time.Second, Stale: time.Minute, StaleIfError: time.Hour,
				Vary:         []string{"Accept-Encoding", "X-Lang"},
				StripCookies: true, MaxBody: 4096, Wait: 50 * time.Millisecond,
			}
			file += "  cache: {ttl: 3s, stale: 1m, stale_if_error: 1h, vary: [X-Lang, Accept-Encoding], cookies: strip, max_body: 4KiB, wait: 50ms}\n"
		}
		set.Rules = append(set.Rules, r)
	}
	if rapid.Bool().Draw(rt, "everything else") {
		set.Rules = append(set.Rules, Rule{Name: "*", Params: []string{"*"}, Ignore: []string{"utm_*"},
			Hot: AtRate(2_500_000)})
		file += "- {name: '*', params: ['*'], ignore: ['utm_*'], hot: {rate: 2500000}}\n"
	}
	if rapid.Bool().Draw(rt, "ip") {
		set.IP = IPLimits{Fixed: IPWindow{50, time.Second}, Sliding: IPWindow{1000, time.Minute},
			InFlight: InFlight{7, time.Minute}, TrustedProxies: []string{"10.0.0.0/8"}, Exempt: []string{"192.0.2.1"}}
		set.Upstreams = []Upstream{{Name: "shop", Latency: 250 * time.Millisecond, Quantile: 0.95, Errors: 0.05},
			{Name: "default"}}
		file += "upstreams: [{name: shop, target: {latency: 250ms, quantile: 0.95, errors: 0.05}}, {name: default}]\n" +
			"ip:\n  in_flight: {limit: 7, lease: 1m}\n  fixed: {limit: 50, window: 1s}\n  sliding: {limit: 1000, window: 60s}\n" +
			"  trusted_proxies: [10.0.0.0/8]\n  exempt: [192.0.2.1]\n"
	}
	return set, file
}

// drawOther draws what limits beside or in place of a Spec.
func drawOther(rt *rapid.T, r *Rule) (file string) {
	switch rapid.IntRange(0, 4).Draw(rt, "other") {
	case 1:
		r.InFlight = InFlight{Limit: 5}
		return "algorithm: in_flight, limit: 5"
	case 2:
		r.InFlight = InFlight{5, 2 * time.Second}
		return "algorithm: in_flight, limit: 5, lease: 2s"
	case 3:
		r.Adaptive = Adaptive{Min: 0.5, Max: 2000}
		return "adaptive: true, min: 0.5, max: 2000"
	case 4:
		r.Limit, r.Adaptive = limit.PerSecond(100), Adaptive{Min: 20, Max: 2000, Upstream: "default"}
		return "rate: 100, burst: 100, adaptive: true, min: 20, max: 2000"
	}
	return ""
}

func drawHot(rt *rapid.T) (h HotWhen, file string) {
	thousandths := rapid.IntRange(1, 1_000_000).Draw(rt, "rate")
	h = AtRate(float64(thousandths) / 1000)
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

// Errors are those of the file, and name the field in Go.
func TestErrorsOfGoValues(t *testing.T) {
	t.Parallel()
	topic := Rule{Name: "topic", Path: "/topic", Params: []string{"id"}, Hot: AtRate(50), Limit: limit.PerSecond(10)}
	for want, change := range map[string]func(*RuleSet){
		"Rules[0].Name: is missing":          func(s *RuleSet) { s.Rules[0].Name = "" },
		"Rules[0].Params: is missing":        func(s *RuleSet) { s.Rules[0].Params = nil },
		"Rules[0].Hot: is missing":           func(s *RuleSet) { s.Rules[0].Hot = HotWhen{} },
		"Rules[0].Hot.MinRate: is missing":   func(s *RuleSet) { s.Rules[0].Hot.Share = 0.2 },
		`Rules[0].Hot.Rate: "-1" is no rate`: func(s *RuleSet) { s.Rules[0].Hot.Rate = -1 },
		"Rules[0].Hot.Window: 1.5s is not between": func(s *RuleSet) {
			s.Rules[0].Hot.Window = 1500 * time.Millisecond
		},
		"Rules[0].Path:":                                func(s *RuleSet) { s.Rules[0].Path = "topic" },
		"Rules[0].Methods[0]:":                          func(s *RuleSet) { s.Rules[0].Methods = []string{"get"} },
		`Rules[0].Mode: "shade" is not one of`:          func(s *RuleSet) { s.Rules[0].Mode = "shade" },
		"Rules[0].Limit.Burst: 0 is not a whole number": func(s *RuleSet) { s.Rules[0].Limit.Burst = 0 },
		`Rules[0].Limit.Limit: "0/1s" is no rate`:       func(s *RuleSet) { s.Rules[0].Limit.Limit = 0 },
		"Rules[0].Limit.InitialDeficit: -10 is not":     func(s *RuleSet) { s.Rules[0].Limit.InitialDeficit = 20 },
		`Rules[0].Limit.Algorithm: "" is not one of`:    func(s *RuleSet) { s.Rules[0].Limit.Algorithm = "" },
		"IP.Fixed.Window: 0s is not between":            func(s *RuleSet) { s.IP.Fixed.Limit = 3 },
		`IP.TrustedProxies[0]: "proxy" is neither`:      func(s *RuleSet) { s.IP.TrustedProxies = []string{"proxy"} },
		"Rules[0].Cache.TTL: -1s is not between": func(s *RuleSet) {
			s.Rules[0].Cache = &hottype.Serve{TTL: -time.Second}
		},
		`Rules[0].Cache.MaxBody: "-1" is not between`: func(s *RuleSet) {
			s.Rules[0].Cache = &hottype.Serve{MaxBody: -1}
		},
		"Rules[0].Cache.Vary[0]: answers that differ by": func(s *RuleSet) {
			s.Rules[0].Cache = &hottype.Serve{Vary: []string{"Cookie"}}
		},
		"Rules[0].Fair: fixed_window has no level": func(s *RuleSet) {
			s.Rules[0].Limit, s.Rules[0].Fair = limit.Spec{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second},
				true
		},
		"Rules[0].Adaptive.Min: is missing": func(s *RuleSet) { s.Rules[0].Adaptive.Max = 5 },
		"Rules[0].Adaptive.Min: 7 is more than max": func(s *RuleSet) {
			s.Rules[0].Adaptive = Adaptive{Min: 7, Max: 5}
		},
		"Rules[0].Limit.Limit: 10 is not between min and max": func(s *RuleSet) {
			s.Rules[0].Adaptive = Adaptive{Min: 1, Max: 5}
		},
		`Rules[0].Adaptive.Upstream: there is no upstream "a"`: func(s *RuleSet) {
			s.Rules[0].Adaptive = Adaptive{Min: 1, Max: 50, Upstream: "a"}
		},
		"Rules[0].Adaptive: gcra does not adapt": func(s *RuleSet) {
			s.Rules[0].Limit.Algorithm, s.Rules[0].Adaptive = limit.GCRA, Adaptive{Min: 1, Max: 50}
		},
		"Upstreams[0].Name: is missing": func(s *RuleSet) { s.Upstreams = []Upstream{{Errors: 0.1}} },
		"Upstreams[0].Quantile: 0.2 is not between": func(s *RuleSet) {
			s.Upstreams = []Upstream{{Name: "a", Quantile: 0.2}}
		},
		"Rules[0].RefundStatus[0]: \"0-99\" is no status": func(s *RuleSet) {
			s.Rules[0].RefundStatus = hottype.Statuses{{From: 0, To: 99}}
		},
		"Rules[0].Limit.Limit: in_flight has limit": func(s *RuleSet) { s.Rules[0].InFlight.Limit = 3 },
		"Rules[0].InFlight.Limit: -3 is not": func(s *RuleSet) {
			s.Rules[0].Limit, s.Rules[0].InFlight.Limit = limit.Spec{}, -3
		},
		"Rules[0].InFlight.Lease: 1ms is not between": func(s *RuleSet) {
			s.Rules[0].Limit, s.Rules[0].InFlight = limit.Spec{}, InFlight{3, time.Millisecond}
		},
		"IP.InFlight.Limit: is missing": func(s *RuleSet) { s.IP.InFlight.Lease = time.Second },
		`Namespace: "A B" is not`:       func(s *RuleSet) { s.Namespace = "A B" },
		`ParseAs: "rail" is no preset`:  func(s *RuleSet) { s.ParseAs = "rail" },
		"hotparam: rules: RuleSet: Rules[1].Name: \"topic\" is the name of the rule at rules[0] too": func(s *RuleSet) {
			s.Rules = append(s.Rules, topic)
		},
	} {
		set := RuleSet{Rules: []Rule{topic}}
		change(&set)
		if _, err := NewRules(set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
