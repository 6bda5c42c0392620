package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// differsAfter is the time for which a process has other rules before that is reported, because a push and a change
	// of files take some seconds to take effect everywhere.
	differsAfter = 15 * time.Second
	// maxDiffering bounds the names in the sentence about processes with other rules.
	maxDiffering = 5
)

// updateRuleNotes finds the rules that cannot work, by the reports of all processes, and the processes that run other
// rules than this one. It logs rules that are found for the first time. The caller holds mu.
func (s *Service) updateRuleNotes(now time.Time) {
	set := s.cfg.Rules()
	var seen []report.RuleUse
	differing := map[string]time.Time{}
	differs := func(instance, hash string) {
		if hash == "" || set.Hash == "" || hash == set.Hash {
			return
		}
		differing[instance] = now
		if since, ok := s.otherRules[instance]; ok {
			differing[instance] = since
		}
	}
	for id, in := range s.rates.instances {
		if now.Sub(in.heard) <= quietAfter {
			seen = append(seen, in.last.Use...)
			differs("limiter "+id, in.last.RulesHash)
		}
	}
	for _, a := range s.aggregators {
		seen = append(seen, a.Use...)
		differs("aggregator "+a.Instance, a.RulesHash)
	}
	if s.cfg.Uses != nil {
		seen = append(seen, s.cfg.Uses(now)...)
	}
	before := s.useNotes
	s.otherRules, s.useNotes = differing, rules.UseNotes(set, now, seen)
	for _, n := range s.useNotes {
		same := func(b rules.UseNote) bool { return b.Rule == n.Rule && b.NoParams == n.NoParams }
		if !slices.ContainsFunc(before, same) {
			s.cfg.Log.Warn("admin: a rule may not work as it is meant", "rule", n.Rule, "why", n.Text)
		}
	}
}

// rulesTrouble returns the sentences about rules for the page. A rule that matches nothing is shown only beside the
// rule, because a site may be quiet. The caller holds mu.
func (s *Service) rulesTrouble(now time.Time) (list []string) {
	for _, n := range s.useNotes {
		if n.NoParams {
			list = append(list, n.String())
		}
	}
	if names := s.differingProcesses(now); len(names) > 0 {
		shown := strings.Join(names[:min(len(names), maxDiffering)], ", ")
		if more := len(names) - maxDiffering; more > 0 {
			shown += fmt.Sprintf(" and %d more", more)
		}
		list = append(list, "Not every process runs the same rules. Other rules than this one run: "+shown+
			". Hot keys and limits do not match; compare their files, or hotparam rules status.")
	}
	return list
}

// differingProcesses returns the names of processes that have had other rules for some time. The caller holds mu.
func (s *Service) differingProcesses(now time.Time) (names []string) {
	for name, since := range s.otherRules {
		if now.Sub(since) >= differsAfter {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ruleNotes returns the notes about rules of the last sample.
func (s *Service) ruleNotes() []rules.UseNote {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.useNotes
}

// reportingProcesses returns the limiters and aggregators that report under a name.
func (s *Service) reportingProcesses(set *rules.Set) []Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, now := []Process{}, s.cfg.Now()
	compared := func(hash string) string {
		switch hash {
		case "":
			return "unknown"
		case set.Hash:
			return "same"
		}
		return "other"
	}
	for _, a := range s.aggregators {
		list = append(list, Process{"aggregator", a.Instance, a.RulesVersion, a.RejectedRulesVersion,
			compared(a.RulesHash)})
	}
	for _, id := range slices.Sorted(maps.Keys(s.rates.instances)) {
		if in := s.rates.instances[id]; now.Sub(in.heard) <= quietAfter {
			l := &in.last
			list = append(list, Process{"limiter", id, l.RulesVersion, l.RejectedRulesVersion, compared(l.RulesHash)})
		}
	}
	return slices.DeleteFunc(list, func(p Process) bool { return p.Instance == "" })
}
