package doctor

import (
	"fmt"
	"maps"
	"slices"
)

// Gateways judges the number of gateways that each listener of a running program refuses, because their token is
// missing or wrong. refused is nil if the program has no listener for gateways.
func Gateways(admin string, refused map[string]int) []Finding {
	l := &list{where: "listeners at " + admin}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		n := refused[name]
		total += n
		if n == 0 {
			continue
		}
		l.addFailure(Finding{
			What: fmt.Sprintf("the listener %s refused gateways within the last minute (addresses: %d): their token is missing or wrong",
				name, n),
			Why: "they get no verdicts: requests pass or fail by the failure setting of their files, and no limit holds",
			Fix: fmt.Sprintf("give the gateway the token of %s.token_file; to replace a token write both there, the new one in the first line",
				name)})
	}
	if len(refused) > 0 && total == 0 {
		l.addOK("no gateway was refused within the last minute")
	}
	return l.findings
}
