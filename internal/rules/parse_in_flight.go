package rules

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// inFlight is the algorithm that bounds requests in flight. It is no limit.Algorithm: it
// counts requests that run, not those that come.
const inFlight = "in_flight"

const (
	defaultLease = 30 * time.Second
	maxInFlight  = 100_000
)

// otherLimits are the fields of other limits, for errors that say more than "unknown".
var otherLimits = slices.Concat(amountNames[:2], amountNames[3:], []string{
	"wait", "block", "block_max", "mode", "fair", "client_key", "candidate", "values",
	"refund_status", "adaptive", "min", "max", "upstream",
})

// inFlight reads how many requests may be in flight. Further fields that may stand beside
// have been read.
func (v value) inFlight(further ...string) *InFlight {
	if v.isNull() {
		return nil
	}
	f := &InFlight{Lease: defaultLease, Scope: ScopeCluster, OnStoreFailure: FailLocal}
	fs := fields{
		"limit":            func(v value) { f.Limit = v.integer(1, maxInFlight) },
		"lease":            func(v value) { f.Lease = v.duration(time.Second, time.Hour, time.Millisecond) },
		"scope":            func(v value) { f.Scope = v.scope() },
		"on_store_failure": func(v value) { f.OnStoreFailure = v.failurePolicy() },
	}
	for _, name := range further {
		fs[name] = nil
	}
	for _, name := range otherLimits {
		fs[name] = func(v value) { v.fail("%s has limit, lease, scope and on_store_failure, not %s", inFlight, name) }
	}
	v.require(v.mapping(fs), "limit")
	return f
}

// isInFlight reports whether a limit names the algorithm of requests in flight.
func (v value) isInFlight() bool {
	i := -2
	if v.kind() == "a mapping" {
		i = slices.IndexFunc(v.node.Content, func(n *yaml.Node) bool { return n.Value == "algorithm" })
	}
	return i >= 0 && i%2 == 0 && strings.TrimSpace(v.node.Content[i+1].Value) == inFlight
}
