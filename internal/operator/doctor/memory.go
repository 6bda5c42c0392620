package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MemoryInspection holds the sizes that a running program reports about its memory, in bytes.
type MemoryInspection struct {
	// Admin is the URL of the program's admin listener.
	Admin string
	// Bounds are the bounds of the memory of the connections and their headers, by listener, or 0 without a bound.
	Bounds map[string]int64
	// Limit is the memory that the process may take, or 0 if it is not known.
	Limit int64
}

// Memory compares the memory that connections may take with the limit of the process. A client that opens all of them
// would end the process.
func Memory(in MemoryInspection) []Finding {
	l := &list{where: "listeners at " + in.Admin}
	var sum int64
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(in.Bounds)) {
		bound := in.Bounds[name]
		sum += bound
		parts = append(parts, name+" "+formatBytes(bound))
		if bound == 0 {
			l.addWarning(Finding{What: name + ".max_connections is 0: connections have no bound",
				Why: "clients that open enough of them take all memory",
				Fix: name + ": {max_connections: 10000}"})
		}
	}
	what := fmt.Sprintf("connections take at most %s (%s)", formatBytes(sum), strings.Join(parts, ", "))
	switch {
	case len(in.Bounds) == 0: // a service with listeners of its own
	case in.Limit == 0:
		l.addOK("%s; how much memory the process may take is not known", what)
	case sum > in.Limit/2:
		l.addWarning(Finding{What: fmt.Sprintf("%s, and the process may take %s", what, formatBytes(in.Limit)),
			Why: "a client that opens many connections with long headers can end the process; counters, caches and bodies" +
				" need the other half",
			Fix: "lower max_connections of these listeners, or give the process more memory"})
	default:
		l.addOK("%s of the %s that the process may take", what, formatBytes(in.Limit))
	}
	return l.findings
}
