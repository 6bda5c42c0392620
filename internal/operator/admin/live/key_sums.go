package live

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// keySum counts the requests for a key that was hot or a loop until a time: those that limiters denied, and those that
// something in shadow mode would have denied. The event of the key's end has them.
type keySum struct {
	denied, wouldDeny float64
	until             time.Time
}

// keepSums is how long a sum waits for the event of the key's end.
const keepSums = time.Minute

// addSums adds one second to the sums of the keys of the lists. The caller holds mu.
func (s *Service) addSums(now time.Time, lists ...[]hottype.HotKey) {
	speeds := s.rates.totalSpeed(now).Keys
	for _, list := range lists {
		for i := range list {
			key := list[i].Key
			sum, sp := s.sums[key], speeds[key]
			s.sums[key] = keySum{sum.denied + sp.Denied, sum.wouldDeny + sp.WouldDeny, now}
		}
	}
	for key, sum := range s.sums {
		if now.Sub(sum.until) > keepSums {
			delete(s.sums, key)
		}
	}
}

// takeSums moves the sums of a key that has cooled, or of a loop that has ended, into the change that tells of it. The
// caller holds mu.
func (s *Service) takeSums(c *Change) {
	if c.Kind == Cooled || c.Kind == CeasedLoop {
		key := hottype.Key(c.Key)
		c.Denied, c.WouldDeny = int64(s.sums[key].denied), int64(s.sums[key].wouldDeny)
		delete(s.sums, key)
	}
}
