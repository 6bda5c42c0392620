package doctor

import "fmt"

// RunningRule is a rule of a running program, with a note if the rule cannot work as intended.
type RunningRule struct{ Name, Note string }

// RunningRules judges the rules of a running program by the requests that it has received, and reports the names of the
// processes beside it that run other rules.
func RunningRules(admin string, rules []RunningRule, others []string) []Finding {
	l := &list{where: "rules at " + admin}
	for _, r := range rules {
		if r.Note != "" {
			l.addWarning(Finding{What: fmt.Sprintf("rule %q: %s", r.Name, r.Note), Why: "no key of it becomes hot",
				Fix: "change match or params of it; hotparam explain --config FILE URL prints the key of a request"})
		}
	}
	for _, name := range others {
		l.addWarning(Finding{What: name + " runs other rules", Why: "hot keys and limits do not match",
			Fix: "give all programs one file, or the rules of one store; hotparam rules status lists them"})
	}
	if len(l.findings) == 0 && len(rules) > 0 {
		l.addOK("every rule has requests with its parameters, and all processes run the same rules")
	}
	return l.findings
}
