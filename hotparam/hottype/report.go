package hottype

import "time"

// Report is what one limiter has decided so far, written about once a second
// so that dashboards can add up the limiters. Counters only grow; a restarted
// limiter reports under a new Instance.
type Report struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
	Allowed  uint64    `json:"allowed"`
	Denied   Denials   `json:"denied"`
	// Overrides is the revision of the live overrides that hold in the limiter.
	Overrides int64 `json:"overrides,omitempty"`
	// Stopped is true in the last report of a limiter that was told to stop.
	Stopped bool `json:"stopped,omitempty"`
	// Rules is the version of the rules from a central store that the limiter runs, 0 where they
	// are from a file. RulesRefused is the one that it does not take, 0 for none.
	Rules        int64 `json:"rules,omitempty"`
	RulesRefused int64 `json:"rules_refused,omitempty"`
	// Keys are the decisions on hot or overridden keys.
	Keys []KeyDecisions `json:"keys,omitempty"`
	// OverrideHits are those of overrides that met a request, by ID.
	OverrideHits []OverrideHits `json:"override_hits,omitempty"`
	// Samples say of the heaviest hot keys who asks for them, by a part of their requests.
	Samples []KeySample `json:"samples,omitempty"`
	// Upstreams are those for which limits adapt. These are no sums: each report has what
	// was seen since the last one.
	Upstreams []UpstreamReport `json:"upstreams,omitempty"`
}

// KeyDecisions counts the decisions on one key.
type KeyDecisions struct {
	Key     Key    `json:"key"`
	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
	// Served are those of Allowed that a response cache answered.
	Served uint64 `json:"served,omitempty"`
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
	Key Key `json:"key"`
	// Seen is how many requests were looked at. In each list are the most frequent names
	// of these, with about how many had them.
	Seen uint64 `json:"seen"`
	// Prefixes are the networks of the clients, /24 or /48, Classes those of the rules.
	Prefixes []NameCount `json:"prefixes,omitempty"`
	Classes  []NameCount `json:"classes,omitempty"`
	// Spellings are what made the key, as it was sent but for what is no printable ASCII.
	Spellings []NameCount `json:"spellings,omitempty"`
}

// NameCount is a name and how often it was seen.
type NameCount struct {
	Name string `json:"name"`
	N    uint64 `json:"n"`
}
