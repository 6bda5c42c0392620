package admin

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// whatIfSpan is how far back a limit is tried.
const whatIfSpan = 5 * time.Minute

// whatIf is what a limit would have done to the requests that came for a key.
type whatIf struct {
	Key   string  `json:"key"`
	Rate  float64 `json:"rate"`
	Burst int64   `json:"burst"`
	// Requests came, Denied would have been; WasDenied were.
	Requests  float64 `json:"requests"`
	Denied    float64 `json:"denied"`
	WasDenied float64 `json:"was_denied"`
	// Seconds are those of which something is known, oldest first.
	Seconds []triedSecond `json:"seconds"`
}

type triedSecond struct {
	At      int64   `json:"at"`
	Allowed float64 `json:"allowed"`
	Denied  float64 `json:"denied"`
}

// getWhatIf tries a limit: GET /v1/keys/{key}/what-if?rate&burst. Nothing is changed.
func (s *Server) getWhatIf(w http.ResponseWriter, r *http.Request) error {
	key, err := s.pathKey(r.PathValue("key"))
	if err != nil {
		return err
	}
	spec, err := triedSpec(r)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	s.mu.Lock()
	list := s.seconds.of(hottype.Key(key), now.Add(-whatIfSpan), now)
	s.mu.Unlock()
	a, err := try(r.Context(), spec, list, slicesOfSecond)
	if err != nil {
		return fmt.Errorf("admin: a limit of %d in %v, burst %d cannot be tried: %w", spec.Limit, spec.Window,
			spec.Burst, err)
	}
	a.Key, a.Rate, a.Burst = key, float64(spec.Limit)/spec.Window.Seconds(), spec.Burst
	return writeJSON(w, http.StatusOK, a)
}

// triedSpec is the limit that an override with this rate and burst sets.
func triedSpec(r *http.Request) (limit.Spec, error) {
	rate, err := strconv.ParseFloat(r.URL.Query().Get("rate"), 64)
	if err != nil || !(rate > 0) {
		return limit.Spec{}, badField("rate", "rate is "+quoted(r.URL.Query().Get("rate")),
			"give requests a second, above 0")
	}
	burst, err := queryInt(r, "burst", 0, math.MaxInt32)
	if err != nil {
		return limit.Spec{}, err
	}
	spec := rules.Override{Action: rules.ActionLimit, Rate: rate, Burst: int64(burst)}.Spec()
	if err := spec.Validate(); err != nil {
		return limit.Spec{}, badField("rate", err.Error(), "give another rate or burst")
	}
	return spec, nil
}

// slicesOfSecond are the parts of a second in which the requests for a key are taken to have come, evenly.
const slicesOfSecond = 100

// try lets the requests of some seconds meet a limit, which is full at first, by the same algorithm that
// limiters use. Each second has that many slices.
func try(ctx context.Context, spec limit.Spec, list []second, slices int) (*whatIf, error) {
	store := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 1})
	a := &whatIf{Seconds: []triedSecond{}}
	for i := range list {
		asked := list[i].asked()
		if math.IsNaN(asked) {
			continue
		}
		one := triedSecond{At: int64(list[i].at)}
		var came float64
		for slice := range slices {
			until := asked * float64(slice+1) / float64(slices)
			n := int64(until - came + 1e-6) // whole requests; the rest comes with the next slice
			if n == 0 {
				continue
			}
			came += float64(n)
			now := time.Unix(one.At, int64(slice)*int64(time.Second)/int64(slices))
			passed, _, err := limit.TakeUpTo(ctx, store, now,
				limit.Charge{Subject: limit.Subject{Name: "tried"}, Spec: spec, Cost: n})
			if err != nil {
				return nil, err
			}
			one.Allowed, one.Denied = one.Allowed+float64(passed), one.Denied+float64(n-passed)
		}
		a.Requests, a.Denied = a.Requests+one.Allowed+one.Denied, a.Denied+one.Denied
		if d := float64(list[i].denied); !math.IsNaN(d) {
			a.WasDenied += d
		}
		a.Seconds = append(a.Seconds, one)
	}
	a.WasDenied = math.Round(a.WasDenied)
	return a, nil
}
