package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/report"
)

const (
	// judgedSeconds is the number of seconds with requests after which the lack of a parameter is reported, because a
	// site that starts has requests without it too.
	judgedSeconds = 10
	// maxNoted bounds the names in a note.
	maxNoted = 5
)

// UseNote describes a rule that cannot work as intended.
type UseNote struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
	// NoParams is true if no request had a parameter of the rule, and false if no request was matched.
	NoParams bool `json:"no_params,omitempty"`
}

// String returns the note as a sentence of its own.
func (n UseNote) String() string { return fmt.Sprintf("rule %q: %s", n.Rule, n.Text) }

// UseNotes returns notes about the rules of a set, in their order, by the uses that several processes have recorded.
func UseNotes(set *Set, now time.Time, seen []report.RuleUse) (notes []UseNote) {
	us := NewUses(set, nil)
	us.Merge(now.Unix(), seen)
	reports := map[*ruleUse][]*report.RuleUse{}
	for i := range seen {
		if u := us.findUse(seen[i].Rule, seen[i].Params); u != nil {
			reports[u] = append(reports[u], &seen[i])
		}
	}
	for i, u := range us.list {
		since := u.since.Load()
		if since == 0 {
			continue // no process has reported when it began
		}
		lasting := now.Unix() - max(since, now.Unix()-useSpan)
		switch n := (UseNote{Rule: u.rule}); {
		case lasting >= useSpan && now.Unix()-u.matched.Load() >= useSpan:
			n.Text = "no request matched it in the last hour"
			notes = append(notes, n)
		case u.lacksParams(now.Unix()) && mostSeconds(reports[u]) >= judgedSeconds:
			n.Text, n.NoParams = describeLack(set.Rules[i], lasting, sumNames(reports[u])), true
			notes = append(notes, n)
		}
	}
	return notes
}

// describeLack returns a text that no request had a parameter of the rule in some seconds, with the names that requests
// had.
func describeLack(r *Rule, lasting int64, names []report.NameCount) string {
	var own, seen []string
	for _, q := range r.Params {
		own = append(own, q.Name)
	}
	for _, n := range names[:min(len(names), maxNoted)] {
		seen = append(seen, n.Name)
	}
	when := "in the last hour"
	if lasting < useSpan {
		when = fmt.Sprintf("in %v", time.Duration(lasting)*time.Second)
	}
	text := fmt.Sprintf("no request had %s %s", strings.Join(own, " or "), when)
	if len(seen) > 0 {
		text += "; seen: " + strings.Join(seen, ", ")
	}
	return text + ". All of its requests have one key, which does not become hot; name a parameter that they have"
}

// mostSeconds returns the greatest number of seconds with requests that a process has recorded.
func mostSeconds(reports []*report.RuleUse) (most int64) {
	for _, r := range reports {
		most = max(most, r.Seconds)
	}
	return most
}

// sumNames adds up the names that processes have recorded, and returns the most frequent names first.
func sumNames(reports []*report.RuleUse) (sum []report.NameCount) {
	for _, r := range reports {
		for _, n := range r.Names {
			if !isShownName(n.Name) {
				continue // from a report that another program wrote
			}
			k := slices.IndexFunc(sum, func(s report.NameCount) bool { return s.Name == n.Name })
			if k < 0 {
				sum = append(sum, n)
				continue
			}
			sum[k].N += n.N
		}
	}
	return sortedNames(sum)
}
