package hotparam

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// IPWindow admits Limit requests in a Window; the zero value admits all.
type IPWindow struct {
	Limit  int64
	Window time.Duration
}

// InFlight bounds how many requests run at the same time; the zero value bounds nothing.
type InFlight struct {
	Limit int64
	// Lease is for how long a place is held when its holder crashed; default 30 s.
	Lease time.Duration
}

// Adaptive says between which rates, in requests per second, the limit of a hot key
// follows what its upstream bears; the zero value follows nothing.
type Adaptive struct {
	Min, Max float64
	// Upstream is one of RuleSet.Upstreams; default "default", the one behind this service.
	Upstream string
}

// Upstream is what an upstream has to hold.
type Upstream struct {
	Name string
	// Latency is the most that Quantile (default 0.9) of all answers may take; 0: it is
	// learnt while nothing is limited.
	Latency  time.Duration
	Quantile float64
	// Errors is the share of failed requests that is borne; default 0.01.
	Errors float64
}

func (u Upstream) file() fields {
	return present(fields{
		"name": u.Name, "target": present(fields{"latency": u.Latency, "quantile": u.Quantile, "errors": u.Errors}),
	})
}

// limitFile is all that limits a hot key.
func (r Rule) limitFile() fields {
	f := fields{}
	if r.Limit != (limit.Spec{}) {
		f = specFile(r.Limit)
	}
	if r.InFlight != (InFlight{}) {
		maps.Copy(f, r.InFlight.file())
		f["algorithm"] = "in_flight"
	}
	maps.Copy(f, present(fields{
		"mode": r.Mode, "fair": r.Fair, "refund_status": statusFile(r.RefundStatus),
		"adaptive": r.Adaptive != (Adaptive{}), "upstream": r.Adaptive.Upstream, "min": rate(r.Adaptive.Min),
		"max": rate(r.Adaptive.Max),
	}))
	return f
}

func specFile(s limit.Spec) fields {
	f := present(fields{"buckets": s.Buckets, "wait": s.Wait, "warm_up": s.WarmUp, "block": s.Block,
		"block_max": s.BlockMax})
	f["algorithm"] = s.Algorithm
	if !limitcore.Spec(s).Even() {
		f["limit"], f["window"] = s.Limit, s.Window
		return f
	}
	f["rate"] = fmt.Sprintf("%d/%v", s.Limit, s.Window)
	if limitcore.Spec(s).Refills() {
		f["burst"] = s.Burst
	}
	if s.InitialDeficit != 0 {
		f["initial_tokens"] = s.Burst - s.InitialDeficit
	}
	return f
}

// statusFile writes statuses as the file does: "5xx", or one by one. A range that no
// answer has is written as it is, for the file to refuse.
func statusFile(all hottype.Statuses) []string {
	var list []string
	for _, r := range all {
		switch {
		case r.From > r.To || r.From < 100 || r.To > 599:
			list = append(list, fmt.Sprintf("%d-%d", r.From, r.To))
		case r.From%100 == 0 && r.To == r.From+99:
			list = append(list, fmt.Sprintf("%dxx", r.From/100))
		default:
			for status := r.From; status <= r.To; status++ {
				list = append(list, strconv.Itoa(status))
			}
		}
	}
	return list
}

func (w IPWindow) file() fields {
	if w == (IPWindow{}) {
		return nil
	}
	return fields{"limit": w.Limit, "window": w.Window}
}

func (f InFlight) file() fields {
	if f == (InFlight{}) {
		return nil
	}
	return present(fields{"limit": f.Limit, "lease": f.Lease})
}
