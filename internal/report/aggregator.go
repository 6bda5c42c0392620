package report

import "time"

// RuleUse records the requests that a process has seen for a rule. Its times are Unix seconds, or 0 for never.
type RuleUse struct {
	Rule string `json:"rule"`
	// Params holds the names of the parameters of the rule, with commas between them. A rule with other parameters is
	// another rule, because the use of one set of parameters is no evidence about another set.
	Params string `json:"params,omitempty"`
	// Since is the time from which on the process would have seen a request.
	Since int64 `json:"since"`
	// Matched is the last second with a request, and WithParams the last second with a request that had one of Params.
	Matched    int64 `json:"matched,omitempty"`
	WithParams int64 `json:"with_params,omitempty"`
	// Seconds is the number of seconds with requests.
	Seconds int64 `json:"seconds,omitempty"`
	// Names holds names of the query that requests without any of Params had, from a sample.
	Names []NameCount `json:"names,omitempty"`
}

// Aggregator is the report of one aggregator about itself and the use of each rule.
type Aggregator struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
	// RulesVersion, RejectedRulesVersion and RulesHash have the same meaning as in Limiter.
	RulesVersion         int64     `json:"rules,omitempty"`
	RejectedRulesVersion int64     `json:"rules_refused,omitempty"`
	RulesHash            string    `json:"rules_hash,omitempty"`
	Use                  []RuleUse `json:"use,omitempty"`
}
