package report

import "time"

// RuleUse is what a process has seen of the requests that a rule matches. Its times are Unix seconds, 0 for never.
type RuleUse struct {
	Rule string `json:"rule"`
	// Params are the names of the parameters of the rule, with commas between them. A rule with other parameters is
	// another one, because what was seen of it says nothing about these.
	Params string `json:"params,omitempty"`
	// Since is the time from which on the process would have seen a request.
	Since int64 `json:"since"`
	// Matched is the last second with a request, and WithParams the last second with a request that had one of Params.
	Matched    int64 `json:"matched,omitempty"`
	WithParams int64 `json:"with_params,omitempty"`
	// Seconds is the number of seconds with requests.
	Seconds int64 `json:"seconds,omitempty"`
	// Names are names of the query that requests without any of Params had, by a sample.
	Names []NameCount `json:"names,omitempty"`
}

// Aggregator is what one aggregator says of itself and has seen of each rule.
type Aggregator struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
	// RulesVersion, RejectedRulesVersion and RulesHash are those of Limiter.
	RulesVersion         int64     `json:"rules,omitempty"`
	RejectedRulesVersion int64     `json:"rules_refused,omitempty"`
	RulesHash            string    `json:"rules_hash,omitempty"`
	Use                  []RuleUse `json:"use,omitempty"`
}
