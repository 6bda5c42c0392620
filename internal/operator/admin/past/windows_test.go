package past

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/rules"
)

// trialRules has per_client in two rules, and a class with windows of its own.
const trialRules = `
rules:
  - {name: login, match: {path: /login, methods: [POST], hosts: [news.example]}, per_client: {fixed: {limit: 60, window: 1m}}}
  - name: search
    continue: true
    match: {path: /search}
    params: [q]
    hot: {rate: 50}
    per_client: {fixed: {limit: 5, window: 1s}, sliding: {limit: 7200, window: 1h}}
  - {name: "*", params: ["*"], hot: {rate: 500}, per_client: {fixed: {limit: 3, window: 1s}}}
classes: [{name: partner, match: {networks: [192.0.2.0/24]}, per_client: {sliding: {limit: 10800, window: 1h}}}]
ip: {exempt: [10.0.0.0/8]}
`

func rulesOf(t *testing.T, text string, live ...rules.Override) *rulesAt {
	t.Helper()
	set, err := rules.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &rulesAt{set, rules.NewOverrides(set.Overrides, live), time.Unix(1e9, 0)}
}

// trafficOf returns a sample in which each sample is one request a second, of one limiter.
func trafficOf(samples ...ClientSample) *Traffic {
	t := &Traffic{Limiters: 1, Samples: samples}
	for _, s := range samples {
		t.Sampled += s.N
	}
	t.Requests = float64(t.Sampled)
	for i := range samples {
		samples[i].Share = float64(samples[i].N) / t.Requests
	}
	return t
}

// trialText describes a trial: "requests: denied before -> after, clients before -> after of all, examples".
func trialText(w *WindowTrial) string {
	return fmt.Sprintf("%q %v: %v -> %v, %d -> %d of %d %v", w.Rule, *w.Requests, *w.DeniedBefore, *w.DeniedAfter,
		w.ClientsBefore, w.ClientsAfter, w.Clients, w.Examples)
}

// Each client is held to the windows of the rules that match its requests. A class has its own windows. Clients that
// are exempt, have an override or are hardly sampled are not denied.
func TestTryWindows_FindsDeniedClients(t *testing.T) {
	t.Parallel()
	const login, search = "POST news.example/login", "GET news.example/search"
	traffic := trafficOf(
		ClientSample{Client: "198.51.100.1", Requested: login, N: 11}, // 10 too many
		ClientSample{Client: "198.51.100.2", Requested: login, N: 6},  // 5 too many
		ClientSample{Client: "198.51.100.3", Requested: login, N: 4},  // too few samples
		ClientSample{Client: "198.51.100.4", Requested: "GET news.example/login", N: 13},
		ClientSample{Client: "198.51.100.5", Requested: "POST other.example/login", N: 2},
		ClientSample{Client: "198.51.100.6", Requested: search, N: 9}, // 7 of search, 6 of the catch-all
		ClientSample{Client: "192.0.2.1", Class: "partner", Requested: search, N: 10},
		ClientSample{Client: "10.0.0.1", Requested: login, N: 20},
		ClientSample{Client: "198.51.100.7", Requested: login, N: 20},
		ClientSample{Client: "198.51.100.8", N: 20}, // of unknown rules
	)
	exempt := rules.Override{Client: "198.51.100.7", Action: rules.ActionExempt}
	a := tryWindows(traffic, rulesOf(t, strings.Replace(trialRules, "limit: 60", "limit: 600", 1), exempt),
		rulesOf(t, trialRules, exempt))
	var got []string
	for i := range a.Rules {
		got = append(got, trialText(&a.Rules[i]))
	}
	want := []string{
		`"login" 61: 1 -> 15, 1 -> 2 of 4 [198.51.100.1 198.51.100.2]`,
		`"search" 19: 14 -> 14, 2 -> 2 of 2 [192.0.2.1 198.51.100.6]`,
		`"*" 34: 23 -> 23, 3 -> 3 of 3 [198.51.100.4 192.0.2.1 198.51.100.6]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if a.Sampled != 115 || *a.KnownFrom != 5 || len(a.NotTried) > 0 {
		t.Errorf("%+v", a)
	}
}

// The windows of ip apply to all requests of a client, also those of no known rule. An override that limits a client
// takes their place, and leaves per_client.
func TestTryWindows_TriesWindowsOfAllRequests(t *testing.T) {
	t.Parallel()
	const text = `
rules: [{name: login, match: {path: /login}, per_client: {fixed: {limit: 1, window: 1s}}}]
ip: {sliding: {limit: 120, window: 1m}}
classes: [{name: bot, match: {header: User-Agent, pattern: bot}, ip: {sliding: {limit: 60, window: 1m}}}]
`
	traffic := trafficOf(
		ClientSample{Client: "198.51.100.1", Requested: "GET a/x", N: 4}, ClientSample{Client: "198.51.100.1", N: 1},
		ClientSample{Client: "198.51.100.2", Class: "bot", Requested: "GET a/x", N: 5},
		ClientSample{Client: "198.51.100.3", Requested: "GET a/login", N: 6},
		ClientSample{Client: "name", Requested: "GET a/x", N: 5},
	)
	limited := rules.Override{Client: "198.51.100.3", Action: rules.ActionLimit, Rate: 1}
	none := rulesOf(t, "rules: [{name: login, match: {path: /login}, params: [], hot: {rate: 1}}]")
	a := tryWindows(traffic, none, rulesOf(t, text, limited))
	b := tryWindows(traffic, rulesOf(t, text, limited), none)
	for i, want := range []string{
		`"" 21: 0 -> 10, 0 -> 3 of 4 [198.51.100.2 198.51.100.1 name]`, `"login" 6: 0 -> 5, 0 -> 1 of 1 [198.51.100.3]`,
		`"" 21: 10 -> 0, 3 -> 0 of 4 []`, `"login" 6: 5 -> 0, 1 -> 0 of 1 []`,
	} {
		if got := trialText(&append(a.Rules, b.Rules...)[i]); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := tryWindows(traffic, none, none); got != nil {
		t.Errorf("without windows: %+v", got)
	}
}

// A trial names what it cannot try: all windows without a sample, and windows by a field that samples lack.
func TestTryWindows_NamesWindowsNotTried(t *testing.T) {
	t.Parallel()
	const text = `
rules:
  - {name: login, match: {path: /login}, per_client: {fixed: {limit: 1, window: 1s, client_key: header.X-Account}}}
ip: {trusted_proxies: [10.0.0.0/8]}
`
	r := rulesOf(t, text)
	for _, empty := range []*Traffic{{}, {Requests: 100}, {Sampled: 100}} {
		if a := tryWindows(empty, r, r); len(a.Rules) > 0 || a.KnownFrom != nil || len(a.NotTried) != 1 {
			t.Errorf("%+v: %+v", empty, a)
		}
	}
	a := tryWindows(trafficOf(ClientSample{Client: "198.51.100.1", Requested: "GET a/login", N: 9}), r, r)
	if len(a.NotTried) != 1 || !strings.Contains(a.NotTried[0], "of login by X-Account") || len(a.Rules) != 1 ||
		*a.Rules[0].DeniedAfter != 0 {
		t.Errorf("%+v", a)
	}
}

// In the long run a window allows its limit in each window, a block adds its time to each round, and a window in shadow
// mode allows all.
func TestAllowedRate_IsThatOfTheLongRun(t *testing.T) {
	t.Parallel()
	for window, want := range map[string]float64{
		"{limit: 60, window: 1m}":                            1,
		"{limit: 600, window: 1m}":                           10, // 10 are asked for
		"{limit: 60, window: 1m, mode: shadow}":              math.Inf(1),
		"{limit: 60, window: 1m, scope: instance}":           2,
		"{limit: 100, window: 1s, block: 10s}":               10,
		"{limit: 60, window: 1m, block: 54s}":                1, // 6 s and 54 s are the window
		"{limit: 60, window: 1m, block: 114s}":               0.5,
		"{limit: 60, window: 1m, block: 54s, block_max: 4m}": 60.0 / 246,
	} {
		r := rulesOf(t, "rules: [{name: a, match: {path: /a}, per_client: {fixed: "+window+"}}]")
		if got := allowedRate(r.set.Rules[0].PerClient.Fixed, 10, 2); got != want {
			t.Errorf("%s: %v, want %v", window, got, want)
		}
	}
	if got := allowedRate(nil, 10, 1); !math.IsInf(got, 1) {
		t.Errorf("without a window: %v", got)
	}
}
