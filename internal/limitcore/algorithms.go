package limitcore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Traits holds the facts about an algorithm that other packages need: the rules file, the fallback without Redis, the
// texts for people and the laws use the same code for all algorithms.
type Traits struct {
	Name hottype.Algorithm
	// Required and Optional are the fields of a limit in a rules file that belong to the algorithm.
	Required, Optional []string
	// Even is true if calls are allowed at a rate, evenly, and may wait. Otherwise a window allows Limit.
	Even bool
	// Refills is true of a bucket with a Burst, which is refilled evenly.
	Refills bool
	// Beyond is the number of calls beyond Burst that such a bucket holds.
	Beyond int64
	// Queues is true if an allowed call always waits for the calls before it.
	Queues bool
}

var (
	rateBurst   = []string{"burst"}
	limitWindow = []string{"limit", "window"}
)

// algorithms lists the algorithms in the order in which errors name them; the first is the default.
var algorithms = []Traits{
	{Name: hottype.TokenBucket, Required: []string{"rate"}, Optional: []string{"burst", "initial_tokens"}, Even: true,
		Refills: true},
	{Name: hottype.GCRA, Required: []string{"rate"}, Optional: rateBurst, Even: true, Refills: true, Beyond: 1},
	{Name: hottype.LeakyBucket, Required: []string{"rate"}, Optional: []string{"burst", "delay", "nodelay"}, Even: true,
		Refills: true, Beyond: 1, Queues: true},
	{Name: hottype.WarmingUp, Required: []string{"rate", "warm_up"}, Even: true},
	{Name: hottype.FixedWindow, Required: limitWindow},
	{Name: hottype.AnchoredWindow, Required: limitWindow},
	{Name: hottype.SlidingWindow, Required: limitWindow},
	{Name: hottype.SlidingLog, Required: limitWindow},
	{Name: hottype.BucketedWindow, Required: limitWindow, Optional: []string{"buckets"}},
}

// Algorithms returns the traits of all algorithms. Callers must not change them.
func Algorithms() []Traits { return algorithms }

// traitsOf returns the traits of an algorithm; an unknown algorithm has no traits.
func traitsOf(a hottype.Algorithm) *Traits {
	for i := range algorithms {
		if algorithms[i].Name == a {
			return &algorithms[i]
		}
	}
	return &Traits{}
}

// algorithmNames lists the algorithms with a trait, for errors: "gcra, leaky_bucket or warming_up".
func algorithmNames(has func(*Traits) bool) string {
	var all []string
	for i := range algorithms {
		if has(&algorithms[i]) {
			all = append(all, string(algorithms[i].Name))
		}
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

func (t *Traits) hasField(field string) bool {
	return slices.Contains(t.Required, field) || slices.Contains(t.Optional, field)
}

// compileAlgorithm compiles the algorithm without its options. It is a switch and not a column of algorithms, because a
// Spec that is passed to a function value is moved to the heap.
func (s *Spec) compileAlgorithm() (Compiled, error) {
	us := s.Window.Microseconds()
	if s.Algorithm == hottype.TokenBucket { // most limits are
		return s.compileBucket(us)
	}
	switch s.Algorithm {
	case hottype.GCRA, hottype.LeakyBucket:
		return s.compileBucket(us)
	case hottype.FixedWindow:
		return Compiled{Kind: KindFixed, Capacity: s.Limit, Unit: us}, nil
	case hottype.AnchoredWindow:
		return Compiled{Kind: KindAnchored, Capacity: s.Limit, Unit: us}, nil
	case hottype.SlidingWindow:
		return s.compileSliding(us)
	case hottype.SlidingLog:
		return s.compileLog(us)
	case hottype.BucketedWindow:
		return s.compileBuckets(us)
	case hottype.WarmingUp:
		return s.compileWarmUp(us)
	}
	return Compiled{}, fmt.Errorf("limit: unknown algorithm %q", s.Algorithm)
}
