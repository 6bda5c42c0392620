package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MemoryInspection is what a running program says of its memory, in bytes.
type MemoryInspection struct {
	// Admin is the URL of its admin listener.
	Admin string
	// Bounds are what the connections of each listener and their headers take at most, by its name; 0: no bound.
	Bounds map[string]int64
	// Limit is what the process may take; 0: it is unknown.
	Limit int64
}

// Memory compares what connections may take with what the process may. A client that opens all of them would end it.
func Memory(in MemoryInspection) []Finding {
	l := &list{where: "listeners at " + in.Admin}
	var sum int64
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(in.Bounds)) {
		bound := in.Bounds[name]
		sum += bound
		parts = append(parts, name+" "+bytes(bound))
		if bound == 0 {
			l.warn(Finding{What: name + ".max_connections is 0: connections have no bound",
				Why: "clients that open enough of them take all memory",
				Fix: name + ": {max_connections: 10000}"})
		}
	}
	what := fmt.Sprintf("connections take at most %s (%s)", bytes(sum), strings.Join(parts, ", "))
	switch {
	case len(in.Bounds) == 0: // a service whose listeners are its own
	case in.Limit == 0:
		l.ok("%s; how much memory the process may take is not known", what)
	case sum > in.Limit/2:
		l.warn(Finding{What: fmt.Sprintf("%s, and the process may take %s", what, bytes(in.Limit)),
			Why: "a client that opens many connections with long headers can end the process; counters, caches and bodies" +
				" need the other half",
			Fix: "lower max_connections of these listeners, or give the process more memory"})
	default:
		l.ok("%s of the %s that the process may take", what, bytes(in.Limit))
	}
	return l.findings
}
