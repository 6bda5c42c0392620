// Package report has the plain types that programs send to each other: the hot set of an aggregator, the reports of
// limiters and aggregators, and commands of people to all limiters. Package rediscontrol writes and reads them. Their
// names in JSON are part of docs/redis.md.
package report

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Limiter is the report of one limiter on its decisions so far, written about once a second so that dashboards can add
// up the limiters. Counters only grow; a restarted limiter reports under a new Instance.
type Limiter struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
	Allowed  uint64    `json:"allowed"`
	// Served is the part of Allowed that a response cache answered.
	Served uint64 `json:"served,omitempty"`
	// WouldDeny is the part of Allowed that something in shadow mode would have denied.
	WouldDeny uint64  `json:"would_deny,omitempty"`
	Denied    Denials `json:"denied"`
	// OverridesRevision is the revision of the live overrides that the limiter applies.
	OverridesRevision int64 `json:"overrides,omitempty"`
	// Stopped is true in the last report of a limiter that was told to stop.
	Stopped bool `json:"stopped,omitempty"`
	// RulesVersion is the version of the rules from a central store that the limiter runs, or 0 if they are from a
	// file. RejectedRulesVersion is the version that it has rejected, or 0.
	RulesVersion         int64 `json:"rules,omitempty"`
	RejectedRulesVersion int64 `json:"rules_refused,omitempty"`
	// RulesHash is a hash of the rules that the limiter runs: of the counting, judging and limiting of requests.
	RulesHash string `json:"rules_hash,omitempty"`
	// Use records the requests that the limiter has seen for each rule.
	Use []RuleUse `json:"use,omitempty"`
	// FailingUpstreams holds the upstreams that respond to no request of the limiter's proxy.
	FailingUpstreams []FailingUpstream `json:"failing_upstreams,omitempty"`
	// RefusedGateways holds the listeners that refuse gateways, each with the number of their addresses, because their
	// token is missing or wrong.
	RefusedGateways []NameCount `json:"refused_gateways,omitempty"`
	// Keys holds the decisions on hot or overridden keys.
	Keys []KeyDecisions `json:"keys,omitempty"`
	// OverrideHits holds the counts of the overrides that applied to a request, by ID.
	OverrideHits []OverrideHits `json:"override_hits,omitempty"`
	// Samples lists the clients of the heaviest hot keys, from a sample of their requests.
	Samples []KeySample `json:"samples,omitempty"`
	// Clients lists the clients of the last minute's requests, from a sample of all requests.
	Clients []SampledClient `json:"clients,omitempty"`
	// LongKeys lists keys whose metric name is a hash, from a sample, the most frequent of the last requests first.
	// They show the key for which an alias stands, if a loop or a cold key is shown by its alias.
	LongKeys []hottype.Key `json:"long_keys,omitempty"`
	// ClientDenials counts the requests that were denied by the windows of their clients, their share, or overrides of
	// clients, since the first report. DeniedClients lists the clients of a sample of DeniedSampled of these denials.
	ClientDenials uint64         `json:"client_denials,omitempty"`
	DeniedClients []DeniedClient `json:"denied_clients,omitempty"`
	DeniedSampled uint64         `json:"denied_sampled,omitempty"`
	// Traces holds the clients that are traced, with the decisions since the trace began.
	Traces []ClientTrace `json:"traces,omitempty"`
	// Upstreams holds the upstreams that adaptive limits follow. They are not sums: each report covers the time since
	// the report before.
	Upstreams []Upstream `json:"upstreams,omitempty"`
}

// KeyDecisions counts the decisions on one key.
type KeyDecisions struct {
	Key hottype.Key `json:"key"`
	// Full is the key if Key is an alias, which stands for a key whose metric name would be too long; "" if the key is
	// unknown.
	Full    hottype.Key `json:"full,omitempty"`
	Allowed uint64      `json:"allowed"`
	Denied  uint64      `json:"denied"`
	// Cached is the part of Allowed that a response cache answered.
	Cached uint64 `json:"served,omitempty"`
	// WouldDeny is the part of Allowed that a limit of the key in shadow mode would have denied.
	WouldDeny uint64 `json:"would_deny,omitempty"`
}

// OverrideHits counts the decisions to which an override applied.
type OverrideHits struct {
	ID string `json:"id"`
	N  uint64 `json:"n"`
	// WouldDeny is the part of N that the override, which is in shadow mode, would have denied.
	WouldDeny uint64 `json:"would_deny,omitempty"`
}

// KeySample describes the clients that requested a key lately, and their spelling of it.
type KeySample struct {
	Key hottype.Key `json:"key"`
	// Sampled is the number of requests in the sample. Each list has the most frequent names in it, with the
	// approximate number of requests that had each.
	Sampled uint64 `json:"seen"`
	// Prefixes holds the networks of the clients, /24 or /48, Classes their classes.
	Prefixes []NameCount `json:"prefixes,omitempty"`
	Classes  []NameCount `json:"classes,omitempty"`
	// Spellings holds the texts from which the key was made, as they were sent, except that bytes other than printable
	// ASCII are escaped.
	Spellings []NameCount `json:"spellings,omitempty"`
}

// SampledClient is a client with the class of its requests, and the number of samples from it.
type SampledClient struct {
	Client string `json:"client"`
	Class  string `json:"class,omitempty"`
	N      uint64 `json:"n"`
	// Requests counts its samples by method, host and path, "GET news.example/topic", as far as they are short.
	Requests []NameCount `json:"requests,omitempty"`
}

// DeniedClient is a client whose requests were denied, with the reasons and the keys that it requested.
type DeniedClient struct {
	Client  string      `json:"client"`
	Network string      `json:"network,omitempty"` // /24 or /48
	Class   string      `json:"class,omitempty"`
	N       uint64      `json:"n"` // samples
	Reasons []NameCount `json:"reasons,omitempty"`
	Keys    []NameCount `json:"keys,omitempty"`
}

// ClientTrace holds the decisions of one limiter for a client, or for the clients of a network, that a person follows.
type ClientTrace struct {
	Client string    `json:"client"` // as it was requested
	Until  time.Time `json:"until"`  // end of the trace
	N      uint64    `json:"n"`      // requests
	// Rows holds the keys with the most requests, each with its verdict.
	Rows []TracedKey `json:"rows,omitempty"`
}

// TracedKey is the number of a client's requests for a key that had one verdict. Key is "" for requests that no rule
// counts.
type TracedKey struct {
	Key     hottype.Key    `json:"key"`
	Allowed bool           `json:"allowed"`
	Reason  hottype.Reason `json:"reason"`
	N       uint64         `json:"n"`
	Last    time.Time      `json:"last"`
}

// NameCount is a name and the number of times that it was seen.
type NameCount struct {
	Name string `json:"name"`
	N    uint64 `json:"n"`
}

// FailingUpstream is an upstream that has answered no request for some time, although requests were sent to it.
type FailingUpstream struct {
	Name string `json:"name"`
	// Since is the time of the first of its failures since it last answered, and N is their number.
	Since time.Time `json:"since"`
	N     uint64    `json:"n"`
}

// Upstream holds the observations of one limiter about one upstream since its last report, about a second.
type Upstream struct {
	Name string `json:"name"`
	// Seconds is the length of that time.
	Seconds float64 `json:"seconds"`
	// OK and Errors are the numbers of requests that the upstream answered, and that it failed.
	OK     int64 `json:"ok"`
	Errors int64 `json:"errors"`
	// InFlight is the average number of requests that waited for their response.
	InFlight float64 `json:"in_flight"`
	// Hot and Cold are the numbers of requests allowed, with and without an adaptive limit that applies. Denied is the
	// number that adaptive limits denied.
	Hot    int64 `json:"hot"`
	Cold   int64 `json:"cold"`
	Denied int64 `json:"refused"`
	// Latency has pairs: a bucket of package adaptive's histogram, and the number of requests in it. LatencySum is the
	// sum over all requests.
	Latency    []int64       `json:"latency,omitempty"`
	LatencySum time.Duration `json:"latency_sum_ns"`
}
