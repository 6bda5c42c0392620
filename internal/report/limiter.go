// Package report has the plain types that programs send to each other: the hot set of an aggregator, the reports of
// limiters and aggregators, and commands of people to all limiters. Package rediscontrol writes and reads them. Their
// names in JSON are part of docs/redis.md.
package report

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Limiter is what one limiter has decided so far, written about once a second
// so that dashboards can add up the limiters. Counters only grow; a restarted
// limiter reports under a new Instance.
type Limiter struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
	Allowed  uint64    `json:"allowed"`
	Denied   Denials   `json:"denied"`
	// OverridesRevision is the revision of the live overrides that hold in the limiter.
	OverridesRevision int64 `json:"overrides,omitempty"`
	// Stopped is true in the last report of a limiter that was told to stop.
	Stopped bool `json:"stopped,omitempty"`
	// RulesVersion is the version of the rules from a central store that the limiter runs, 0 where they
	// are from a file. RejectedRulesVersion is the one that it does not take, 0 for none.
	RulesVersion         int64 `json:"rules,omitempty"`
	RejectedRulesVersion int64 `json:"rules_refused,omitempty"`
	// RulesHash is a hash of the rules that the limiter runs: of how requests are counted, judged and limited.
	RulesHash string `json:"rules_hash,omitempty"`
	// Use is what the limiter has seen of the requests of each rule.
	Use []RuleUse `json:"use,omitempty"`
	// FailingUpstreams are the upstreams that answer no request of the limiter's proxy.
	FailingUpstreams []FailingUpstream `json:"failing_upstreams,omitempty"`
	// RefusedGateways are the listeners that refuse gateways, each with the number of their addresses, because their
	// token is missing or wrong.
	RefusedGateways []NameCount `json:"refused_gateways,omitempty"`
	// Keys are the decisions on hot or overridden keys.
	Keys []KeyDecisions `json:"keys,omitempty"`
	// OverrideHits are those of overrides that met a request, by ID.
	OverrideHits []OverrideHits `json:"override_hits,omitempty"`
	// Samples list the clients of the heaviest hot keys, from a sample of their requests.
	Samples []KeySample `json:"samples,omitempty"`
	// Clients are which clients sent the last minute's requests, by a sample of all of them.
	Clients []SampledClient `json:"clients,omitempty"`
	// LongKeys are keys whose metric name is a hash, those with most of the last requests first, by a sample. They say
	// what the alias stands for that is shown of a loop or a cold key.
	LongKeys []hottype.Key `json:"long_keys,omitempty"`
	// ClientDenials counts the requests that were denied by the windows of their clients, their share, or overrides of
	// clients, since the first report. DeniedClients are those clients, by a sample of DeniedSampled of these denials.
	ClientDenials uint64         `json:"client_denials,omitempty"`
	DeniedClients []DeniedClient `json:"denied_clients,omitempty"`
	DeniedSampled uint64         `json:"denied_sampled,omitempty"`
	// Traces are the clients that are traced, with what was decided since the trace began.
	Traces []ClientTrace `json:"traces,omitempty"`
	// Upstreams are those for which limits adapt. These are no sums: each report has what
	// was seen since the last one.
	Upstreams []Upstream `json:"upstreams,omitempty"`
}

// KeyDecisions counts the decisions on one key.
type KeyDecisions struct {
	Key hottype.Key `json:"key"`
	// Full is the key if Key is an alias, which stands for one whose metric name would be too long; "" if it is not
	// known.
	Full    hottype.Key `json:"full,omitempty"`
	Allowed uint64      `json:"allowed"`
	Denied  uint64      `json:"denied"`
	// Cached are those of Allowed that a response cache answered.
	Cached uint64 `json:"served,omitempty"`
}

// OverrideHits counts the decisions that an override was part of.
type OverrideHits struct {
	ID string `json:"id"`
	N  uint64 `json:"n"`
	// WouldDeny are those of N that the override, which is in shadow mode, would have denied.
	WouldDeny uint64 `json:"would_deny,omitempty"`
}

// KeySample says who asked for a key lately, and how they wrote it.
type KeySample struct {
	Key hottype.Key `json:"key"`
	// Sampled is how many requests were looked at. In each list are the most frequent names
	// of these, with about how many had them.
	Sampled uint64 `json:"seen"`
	// Prefixes are the networks of the clients, /24 or /48, Classes those of the rules.
	Prefixes []NameCount `json:"prefixes,omitempty"`
	Classes  []NameCount `json:"classes,omitempty"`
	// Spellings are what made the key, as it was sent but for what is no printable ASCII.
	Spellings []NameCount `json:"spellings,omitempty"`
}

// SampledClient is a client with the class of its requests, and how many of the samples are its.
type SampledClient struct {
	Client string `json:"client"`
	Class  string `json:"class,omitempty"`
	N      uint64 `json:"n"`
}

// DeniedClient is a client whose requests were denied: why, and what it requested.
type DeniedClient struct {
	Client  string      `json:"client"`
	Network string      `json:"network,omitempty"` // /24 or /48
	Class   string      `json:"class,omitempty"`
	N       uint64      `json:"n"` // samples
	Reasons []NameCount `json:"reasons,omitempty"`
	Keys    []NameCount `json:"keys,omitempty"`
}

// ClientTrace is what one limiter decided for a client, or for the clients of a network, that a person follows.
type ClientTrace struct {
	Client string    `json:"client"` // as it was asked for
	Until  time.Time `json:"until"`  // the end of the trace
	N      uint64    `json:"n"`      // requests
	// Rows are the keys with most requests, each with its verdict.
	Rows []TracedKey `json:"rows,omitempty"`
}

// TracedKey is how often a client's requests for a key had one verdict. Key is "" for requests that no rule counts.
type TracedKey struct {
	Key     hottype.Key    `json:"key"`
	Allowed bool           `json:"allowed"`
	Reason  hottype.Reason `json:"reason"`
	N       uint64         `json:"n"`
	Last    time.Time      `json:"last"`
}

// NameCount is a name and how often it was seen.
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

// Upstream is what one limiter saw of one upstream since its last report, about a second.
type Upstream struct {
	Name string `json:"name"`
	// Seconds is how long that was.
	Seconds float64 `json:"seconds"`
	// OK and Errors are the requests that the upstream answered, and those that it failed.
	OK     int64 `json:"ok"`
	Errors int64 `json:"errors"`
	// InFlight is how many requests waited for their answer, on average.
	InFlight float64 `json:"in_flight"`
	// Hot and Cold are the requests allowed, by whether an adaptive limit holds for them.
	// Denied are those that adaptive limits denied.
	Hot    int64 `json:"hot"`
	Cold   int64 `json:"cold"`
	Denied int64 `json:"refused"`
	// Latency has pairs: a bucket of package adaptive's histogram, and how many requests
	// were in it. LatencySum is of all of them.
	Latency    []int64       `json:"latency,omitempty"`
	LatencySum time.Duration `json:"latency_sum_ns"`
}
