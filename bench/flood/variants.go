package main

import (
	"fmt"
	"strings"
)

// variant is a way to limit the pages: a rules file.
type variant struct {
	name    string
	params  string // of the rule
	limit   string
	classes string  // "" without classes
	rate    float64 // of a fixed limit, or 0 if the limit is adaptive
	text    string  // the whole file, in place of its parts
}

// The parts of variants.
const (
	noParams = "[]" // one key for all pages
	// fixedRate is 0.85 of the capacity, which an operator chooses after measuring the capacity.
	fixedRate    = 85
	fixedLimit   = "rate: 85, burst: 20"
	adaptiveRule = "adaptive: true, min: 10, max: 400"
	memberClass  = `
  - {name: member, match: {header: X-User, pattern: "."}}`
	visitorClass = `
  - {name: visitor, pass_age: 10s}`
	regularClass = `
  - {name: regular, pass_age: 1h}`
	seniorClasses = memberClass + regularClass + visitorClass
)

// Variants with priority.
var (
	fixed = variant{name: "fixed", params: noParams, limit: fixedLimit + ", priority: [member, visitor]",
		classes: memberClass + visitorClass, rate: fixedRate}
	adapt = variant{name: "adaptive", params: noParams, limit: adaptiveRule + ", priority: [member, visitor]",
		classes: memberClass + visitorClass}
	// With a class of visitors whose pass is older than the flood.
	fixedSeniority = variant{name: "fixed, seniority", params: noParams, rate: fixedRate,
		limit: "rate: 85, burst: 30, priority: [member, regular, visitor]", classes: seniorClasses}
	adaptSeniority = variant{name: "adaptive, seniority", params: noParams,
		limit: adaptiveRule + ", priority: [member, regular, visitor]", classes: seniorClasses}
)

// withPriority are the variants that have to reach the goals.
var withPriority = []variant{fixed, adapt}

// adaptOneKey is the adaptive limit without priority.
var adaptOneKey = variant{name: "one key, adaptive", params: noParams, limit: adaptiveRule}

// others are the variants for comparison.
var others = []variant{
	{name: "a key for each value", params: "[path.rev, path.file]", limit: fixedLimit},
	{name: "one key", params: noParams, limit: fixedLimit, rate: fixedRate},
	{name: "one key, `fair: true`", params: noParams, limit: fixedLimit + ", fair: true", rate: fixedRate},
	{name: "the class is the key, `fair: true`", params: "[header.X-Class]", limit: "rate: 60, burst: 20, fair: true"},
	adaptOneKey,
	{name: "priority of members only", params: noParams, limit: fixedLimit + ", priority: [member]",
		classes: memberClass, rate: fixedRate},
	{name: "priority of members only, adaptive", params: noParams, limit: adaptiveRule + ", priority: [member]",
		classes: memberClass},
}

// file returns the rules file. Requests come through a proxy on the same machine.
func (v *variant) file() string {
	if v.text != "" {
		return v.text
	}
	text := fmt.Sprintf(`ip: {fixed: {limit: 50, window: 1s}, trusted_proxies: ["127.0.0.1/32"]}
rules:
  - name: pages
    match: {path: "/blame/{rev}/{file}"}
    params: %s
    hot: {rate: 50}
    limit: {%s}
`, v.params, v.limit)
	if v.classes != "" {
		text += "classes:" + v.classes + "\n"
	}
	return text
}

// hasSeniority reports whether visitors with passes of an hour come before others.
func (v *variant) hasSeniority() bool { return strings.Contains(v.classes, regularClass) }
