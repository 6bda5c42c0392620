package limitcore

import (
	"fmt"
	"slices"
	"strings"
)

// Algorithm names a way of limiting.
type Algorithm string

// The algorithms.
const (
	TokenBucket    Algorithm = "token_bucket"
	GCRA           Algorithm = "gcra"
	LeakyBucket    Algorithm = "leaky_bucket"
	FixedWindow    Algorithm = "fixed_window"
	AnchoredWindow Algorithm = "anchored_window"
	SlidingWindow  Algorithm = "sliding_window"
	SlidingLog     Algorithm = "sliding_log"
	BucketedWindow Algorithm = "bucketed_window"
	WarmingUp      Algorithm = "warming_up"
)

// Traits are what other packages have to know of an algorithm: the rules file, the fallback
// without Redis, the texts for people and the laws are the same code for all of them.
type Traits struct {
	Name Algorithm
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
	{Name: TokenBucket, Required: []string{"rate"}, Optional: []string{"burst", "initial_tokens"}, Even: true,
		Refills: true},
	{Name: GCRA, Required: []string{"rate"}, Optional: rateBurst, Even: true, Refills: true, Beyond: 1},
	{Name: LeakyBucket, Required: []string{"rate"}, Optional: []string{"burst", "delay", "nodelay"}, Even: true,
		Refills: true, Beyond: 1, Queues: true},
	{Name: WarmingUp, Required: []string{"rate", "warm_up"}, Even: true},
	{Name: FixedWindow, Required: limitWindow},
	{Name: AnchoredWindow, Required: limitWindow},
	{Name: SlidingWindow, Required: limitWindow},
	{Name: SlidingLog, Required: limitWindow},
	{Name: BucketedWindow, Required: limitWindow, Optional: []string{"buckets"}},
}

// Algorithms are the traits of all algorithms. Callers must not change them.
func Algorithms() []Traits { return algorithms }

// traits are those of the algorithm, without any where it is unknown.
func (a Algorithm) traits() *Traits {
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
	if s.Algorithm == TokenBucket { // most are
		return s.compileBucket(us)
	}
	switch s.Algorithm {
	case GCRA, LeakyBucket:
		return s.compileBucket(us)
	case FixedWindow:
		return Compiled{Kind: KindFixed, Capacity: s.Limit, Unit: us}, nil
	case AnchoredWindow:
		return Compiled{Kind: KindAnchored, Capacity: s.Limit, Unit: us}, nil
	case SlidingWindow:
		return s.compileSliding(us)
	case SlidingLog:
		return s.compileLog(us)
	case BucketedWindow:
		return s.compileBuckets(us)
	case WarmingUp:
		return s.compileWarmUp(us)
	}
	return Compiled{}, fmt.Errorf("limit: unknown algorithm %q", s.Algorithm)
}
