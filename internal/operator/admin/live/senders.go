package live

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxParts is how many names a list of senders has.
const maxParts = 8

// sendersView is which clients request a hot key and how they write it, by a sample of its requests.
type sendersView struct {
	Sampled   uint64     `json:"sampled"` // requests, of all limiters
	Prefixes  []partView `json:"prefixes"`
	Classes   []partView `json:"classes"`
	Spellings []partView `json:"spellings"` // null: the rules redact values
}

// partView is a name and about its part of what was sampled.
type partView struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// senders joins what the limiters that are alive have sampled of a key; nil: nothing.
func (s *Service) senders(key hottype.Key, now time.Time) *sendersView {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &sendersView{}
	prefixes, classes, spellings := map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	for _, in := range s.rates.instances {
		if now.Sub(in.heard) > quietAfter {
			continue
		}
		for _, k := range in.last.Samples {
			if k.Key == key {
				v.Sampled += k.Seen
				addNames(prefixes, k.Prefixes)
				addNames(classes, k.Classes)
				addNames(spellings, k.Spellings)
			}
		}
	}
	if v.Sampled == 0 {
		return nil
	}
	v.Prefixes, v.Classes = parts(prefixes, v.Sampled), parts(classes, v.Sampled)
	if !s.cfg.Rules().Redacts() {
		v.Spellings = parts(spellings, v.Sampled)
	}
	return v
}

func addNames(sum map[string]uint64, list []hottype.NameCount) {
	for _, c := range list {
		sum[c.Name] += c.N
	}
}

// parts are the most frequent names of a sample, most frequent first.
func parts(counts map[string]uint64, sampled uint64) []partView {
	list := make([]partView, 0, len(counts))
	for name, n := range counts {
		list = append(list, partView{name, min(1, math.Round(1000*float64(n)/float64(sampled))/1000)})
	}
	slices.SortFunc(list, func(a, b partView) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxParts)]
}
