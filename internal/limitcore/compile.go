package limitcore

import (
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The bounds of the exact domain; see limit.Spec.Validate. Times end far enough below 2^53 that the end of any state is
// below it too.
const (
	maxExact  = 1<<53 - 1
	maxWindow = 1 << 45
	maxFill   = 1 << 46
	maxTime   = maxExact - 1<<47
)

// Kind is an algorithm as the stores write it: one letter.
type Kind byte

// The kinds. KindNone is the kind of the state of a subject from which nothing is taken.
const (
	KindNone     Kind = 0
	KindBucket   Kind = 't'
	KindFixed    Kind = 'f'
	KindSliding  Kind = 's'
	KindAnchored Kind = 'a'
	KindLog      Kind = 'l'
	KindWarm     Kind = 'w'
)

// Compiled is a Spec in the form with which the stores compute.
type Compiled struct {
	Kind Kind
	// Capacity is Spec.Capacity; 0 always denies. A token bucket holds the Reserve beyond it.
	Capacity int64
	// Unit is for a token bucket the number of units of one token, for a warm-up the number of units of a microsecond,
	// and for a window its length in microseconds.
	Unit int64
	// Fill is for a token bucket the number of units that return per microsecond, for a warm-up the number of units
	// that a call takes, for a bucketed window the number of microseconds of a bucket, and 0 for others.
	Fill int64
	// Slack is the number of units that Spec.Wait adds to Capacity: for a token bucket the part of a token, below Unit,
	// that returns during the wait and may be missing too, and for a warm-up the debt that the wait pays. It is 0 for
	// others.
	Slack int64
	// Reserve is Spec.Reserve in units, a multiple of Unit.
	Reserve int64
	// Warm is Spec.WarmUp in units; 0 for others.
	Warm int64
	// InitialDeficit is Spec.InitialDeficit in units.
	InitialDeficit int64
	// Block and BlockMax are the fields of the Spec in microseconds; BlockMax is never below Block.
	Block, BlockMax int64
}

// Compile compiles a spec, or returns an error that says why the spec is invalid. It costs a greatest common divisor;
// stores keep the result for the subjects that they know.
func (s *Spec) Compile() (Compiled, error) {
	if err := s.validateCommon(); err != nil {
		return Compiled{}, err
	}
	if s.Reserve == 0 && s.InitialDeficit == 0 && s.Wait == 0 && s.Block == 0 && s.BlockMax == 0 { // as most specs have
		return s.compileAlgorithm()
	}
	if err := s.validateOptions(); err != nil {
		return Compiled{}, err
	}
	t, err := s.compileAlgorithm()
	t.InitialDeficit, t.Block, t.BlockMax = min(s.InitialDeficit, t.Capacity)*t.Unit, s.Block.Microseconds(),
		max(s.BlockMax, s.Block).Microseconds()
	return t, err
}

// validateCommon checks the bounds that every algorithm has.
func (s *Spec) validateCommon() error {
	switch {
	case s.Window <= 0:
		return fmt.Errorf("limit: window %v must be positive", s.Window)
	case s.Window%time.Microsecond != 0:
		return fmt.Errorf("limit: window %v must be whole microseconds", s.Window)
	case s.Window.Microseconds() > maxWindow:
		return fmt.Errorf("limit: window %v is longer than 407 days", s.Window)
	case s.Limit < 0 || s.Limit > maxExact:
		return fmt.Errorf("limit: limit %d must be in 0..2^53-1", s.Limit)
	}
	return nil
}

// validateOptions checks the options of an algorithm.
func (s *Spec) validateOptions() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"wait", s.Wait}, {"block", s.Block}, {"longest block", s.BlockMax}} {
		switch {
		case d.d < 0 || d.d.Microseconds() > maxWindow:
			return fmt.Errorf("limit: %s %v must be in 0..407 days", d.name, d.d)
		case d.d%time.Microsecond != 0:
			return fmt.Errorf("limit: %s %v must be whole microseconds", d.name, d.d)
		}
	}
	if err := s.validateReserve(); err != nil {
		return err
	}
	switch {
	case s.Wait > 0 && !s.Even():
		return fmt.Errorf("limit: wait %v is not supported by %s; use %s", s.Wait, s.Algorithm,
			algorithmNames(func(t *Traits) bool { return t.Even }))
	case s.InitialDeficit != 0 && !traitsOf(s.Algorithm).hasField("initial_tokens"):
		return fmt.Errorf("limit: %s starts with nothing taken; only a token_bucket can start otherwise", s.Algorithm)
	case s.InitialDeficit < 0 || s.InitialDeficit > s.Burst:
		return fmt.Errorf("limit: a bucket of burst %d cannot start %d tokens short", s.Burst, s.InitialDeficit)
	case s.BlockMax > 0 && s.BlockMax < s.Block:
		return fmt.Errorf("limit: longest block %v is shorter than block %v", s.BlockMax, s.Block)
	case s.BlockMax > 0 && s.Block == 0:
		return fmt.Errorf("limit: longest block %v without a block", s.BlockMax)
	}
	return nil
}

// validateReserve checks the reserve of a bucket. A wait would take the tokens of the reserve in advance, a block after
// the denial of one charge would deny charges with a smaller reserve too, and a bucket with an initial deficit would
// begin without its reserve.
func (s *Spec) validateReserve() error {
	keeps := func(t *Traits) bool { return t.Refills && !t.Queues }
	switch t := traitsOf(s.Algorithm); {
	case s.Reserve == 0:
		return nil
	case !keeps(t):
		return fmt.Errorf("limit: reserve %d is not supported by %s; use %s", s.Reserve, s.Algorithm,
			algorithmNames(keeps))
	case s.Reserve < 0 || s.Reserve >= s.Burst+t.Beyond:
		return fmt.Errorf("limit: reserve %d of burst %d must be in 0..%d, so that a charge can be allowed", s.Reserve,
			s.Burst, s.Burst+t.Beyond-1)
	case s.Wait != 0 || s.Block != 0 || s.InitialDeficit != 0:
		return fmt.Errorf("limit: reserve %d cannot be combined with a wait, a block or an initial deficit", s.Reserve)
	}
	return nil
}

// CheckInFlight returns the error of an invalid bound on calls in flight or of an invalid life of a lease.
func CheckInFlight(most int64, life time.Duration) error {
	if err := (&Spec{Algorithm: hottype.FixedWindow, Limit: most, Window: life}).validateCommon(); err != nil {
		return fmt.Errorf("limit: %d in flight for up to %v: %w", most, life, err)
	}
	return nil
}

// Micros returns a time in the microseconds of the stores, within their domain.
func Micros(t time.Time) int64 { return min(max(t.UnixMicro(), 0), maxTime) }

// GCD returns the greatest common divisor.
func GCD(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// CeilDiv returns a/b rounded up, for b > 0, without leaving the domain. Most buckets fill by 1 and save the division.
func CeilDiv(a, b int64) int64 {
	if b == 1 {
		return a
	}
	q := a / b
	if q*b < a {
		q++
	}
	return q
}
