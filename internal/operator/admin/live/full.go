package live

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
)

// maxPlaces is the number of hot keys of a rule without max_hot.
const maxPlaces = 10_000

// fullSets returns a sentence for each rule whose hot set is full.
func (s *Service) fullSets(hot []hottype.HotKey) (list []string) {
	var full []hotset.Full
	if s.cfg.Full != nil {
		full = s.cfg.Full()
	} else {
		keys := map[string]int{}
		for i := range hot {
			keys[hot[i].Rule]++
		}
		for _, r := range s.cfg.Rules().Rules {
			places := r.Hot.MaxHot
			if places <= 0 {
				places = maxPlaces
			}
			if keys[r.Name] >= places {
				full = append(full, hotset.Full{Rule: r.Name, Places: places})
			}
		}
	}
	for _, f := range full {
		list = append(list, f.String())
	}
	return list
}
