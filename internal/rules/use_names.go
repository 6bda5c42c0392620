package rules

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/hotparam/pipeline/internal/report"
)

// The bounds of the names that are kept for one rule. All of them are bounded, because clients choose names.
const (
	maxSeenNames  = 8   // names that are counted
	maxNameBytes  = 32  // of a name
	maxNamesEach  = 16  // names of one query
	maxNameSample = 100 // queries of one second
)

// seenNames counts the most frequent names of queries, in bounded memory: a name that finds no place takes the place of
// the rarest name, with its count (Space-Saving). It takes only names that end in "=", because a text without "=" may
// be a secret, and only names of bytes that can be shown anywhere.
type seenNames struct {
	mu      sync.Mutex // guards all fields below
	second  int64
	sampled int // queries of second
	counts  []report.NameCount
}

func (s *seenNames) add(second int64, query string) {
	if !s.mu.TryLock() {
		return // another request is being recorded
	}
	defer s.mu.Unlock()
	if s.second != second {
		s.second, s.sampled = second, 0
	}
	if s.sampled++; s.sampled > maxNameSample {
		return
	}
	for n := 0; n < maxNamesEach && query != ""; n++ {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if name, _, ok := strings.Cut(pair, "="); ok && isShownName(name) {
			s.countName(name)
		}
	}
}

func isShownName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c|0x20 < 'a' || c|0x20 > 'z' {
			if (c < '0' || c > '9') && strings.IndexByte("._-[]", c) < 0 {
				return false
			}
		}
	}
	return name != "" && len(name) <= maxNameBytes
}

// countName counts a name. The caller holds mu.
func (s *seenNames) countName(name string) {
	least := 0
	for i := range s.counts {
		if s.counts[i].Name == name {
			s.counts[i].N++
			return
		}
		if s.counts[i].N < s.counts[least].N {
			least = i
		}
	}
	name = strings.Clone(name) // name is a part of a whole target
	if len(s.counts) < maxSeenNames {
		s.counts = append(s.counts, report.NameCount{Name: name, N: 1})
		return
	}
	s.counts[least] = report.NameCount{Name: name, N: s.counts[least].N + 1}
}

// list returns the names, the most frequent names first.
func (s *seenNames) list() []report.NameCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedNames(slices.Clone(s.counts))
}

func sortedNames(list []report.NameCount) []report.NameCount {
	slices.SortFunc(list, func(a, b report.NameCount) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name))
	})
	return list
}
