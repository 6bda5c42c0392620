package past

import (
	"context"
	"math"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// Second holds the numbers of a key in one second, in requests a second. A number that was not known is NaN. A list for
// [Simulate] has no rates of other costs.
type Second struct {
	At                           uint32 // unix seconds; 0: no second
	Rate, Allowed, Denied, Limit float32
	WouldDeny                    float32 // part of Allowed
	// Mean is the mean cost of a request, in counts of the limit that is tried; 0 stands for 1.
	Mean int64
}

// SetMean sets the mean cost of the requests from a rate of their cost, in units a second.
func (s *Second) SetMean(cost hottype.Cost, rate float64) {
	s.Rate = Unknown
	if n := s.requestCount(); n > 0 && rate > 0 {
		s.Mean = int64(rate * float64(cost.Unit()) / n)
	}
}

// requestCount returns the number of requests for the key in the second, as far as it is known. The decisions of
// limiters are preferred to the rate, which is a mean over the rule's window.
func (s *Second) requestCount() float64 {
	if n := float64(s.Allowed) + float64(s.Denied); !math.IsNaN(n) {
		return n
	}
	return max(0, float64(s.Rate)) // NaN stays NaN
}

// Unknown is a number of a Second that was not known.
var Unknown = float32(math.NaN())

type Simulation struct {
	Key   hottype.Key `json:"key"`
	Rate  float64     `json:"rate"`
	Burst int64       `json:"burst"`
	// InForce is the present limit of the key, or nil if it has no limit or the limit is not known.
	InForce any `json:"in_force"`
	// Requests is the number of requests, Denied the number that the limit would have denied, and WasDenied the number
	// that was denied.
	Requests  float64 `json:"requests"`
	Denied    float64 `json:"denied"`
	WasDenied float64 `json:"was_denied"`
	// NotTried names limits that may deny some of the requests first, and that were not tried.
	NotTried []string `json:"not_tried"`
	// Seconds are the seconds for which requests are known, oldest first.
	Seconds []simulatedSecond `json:"seconds"`
}

type simulatedSecond struct {
	At      int64   `json:"at"`
	Allowed float64 `json:"allowed"`
	Denied  float64 `json:"denied"`
}

// SlicesOfSecond is the number of parts of a second over which the requests for a key are evenly distributed.
const SlicesOfSecond = 100

// Simulate charges the requests of some seconds to a limit, which is full at first, by the algorithm of limiters. Each
// second is divided into slices.
func Simulate(ctx context.Context, spec limit.Spec, list []Second, slices int) (*Simulation, error) {
	store := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 1})
	a := &Simulation{NotTried: []string{}, Seconds: []simulatedSecond{}}
	for i := range list {
		asked := list[i].requestCount()
		if math.IsNaN(asked) {
			continue
		}
		one := simulatedSecond{At: int64(list[i].At)}
		var came float64
		for slice := range slices {
			until := asked * float64(slice+1) / float64(slices)
			n := int64(until - came + 1e-6) // whole requests; the rest comes with the next slice
			if n == 0 {
				continue
			}
			came += float64(n)
			now := time.Unix(one.At, int64(slice)*int64(time.Second)/int64(slices))
			mean := max(1, list[i].Mean)
			taken, _, err := limit.TakeUpTo(ctx, store, now,
				limit.Charge{Subject: limit.Subject{Name: "tried"}, Spec: spec, Cost: n * mean})
			if err != nil {
				return nil, err
			}
			passed := float64(taken) / float64(mean)
			one.Allowed, one.Denied = one.Allowed+passed, one.Denied+float64(n)-passed
		}
		a.Requests, a.Denied = a.Requests+one.Allowed+one.Denied, a.Denied+one.Denied
		if d := float64(list[i].Denied); !math.IsNaN(d) {
			a.WasDenied += d
		}
		a.Seconds = append(a.Seconds, one)
	}
	a.WasDenied = math.Round(a.WasDenied)
	return a, nil
}
