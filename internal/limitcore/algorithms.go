package limitcore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Traits are what other packages have to know of an algorithm: the rules file, the fallback
// without Redis, the texts for people and the laws are the same code for all of them.
type Traits struct {
	Name hottype.Algorithm
	// Required and Optional are the fields of a limit in a rules file that belong to it.
	Required, Optional []string
	// Even: calls are allowed at a rate, evenly, and may wait. Otherwise a window allows Limit.
	Even bool
	// Refills: a bucket with a Burst, which Even refills.
	Refills bool
	// Beyond is how many calls beyond Burst such a bucket holds.
	Beyond int64
	// Queues: an allowed call always waits for those before it.
	Queues bool
}

var (
	rateBurst   = []string{"burst"}
	limitWindow = []string{"limit", "window"}
)

// algorithms are in the order in which errors list them; the first is the default.
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

// Algorithms are the traits of all algorithms. Callers must not change them.
func Algorithms() []Traits { return algorithms }

// traitsOf returns the traits of an algorithm; an unknown one has none.
func traitsOf(a hottype.Algorithm) *Traits {
	for i := range algorithms {
		if algorithms[i].Name == a {
			return &algorithms[i]
		}
	}
	return &Traits{}
}

// names lists the algorithms with a trait, for errors: "gcra, leaky_bucket or warming_up".
func names(has func(*Traits) bool) string {
	var all []string
	for i := range algorithms {
		if has(&algorithms[i]) {
			all = append(all, string(algorithms[i].Name))
		}
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

func (t *Traits) has(field string) bool {
	return slices.Contains(t.Required, field) || slices.Contains(t.Optional, field)
}

// compileAlgorithm leaves out what goes beside the algorithm. It is a switch and not a column
// of algorithms, because a Spec that is passed to a function value is moved to the heap.
func (s *Spec) compileAlgorithm() (Compiled, error) {
	us := s.Window.Microseconds()
	if s.Algorithm == hottype.TokenBucket { // most are
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
