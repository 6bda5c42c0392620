package demo

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Result is what the demo has shown; --json writes it.
type Result struct {
	DurationSeconds float64 `json:"duration_s"`
	Groups          struct {
		Quiet   Seen `json:"quiet"`
		Viral   Seen `json:"viral"`
		Crawler Seen `json:"crawler"`
		Loop    Seen `json:"loop"`
	} `json:"groups"`
	// QuietAnswered is the share of requests for other topics that got their
	// page, in percent.
	QuietAnswered float64 `json:"quiet_answered_percent"`
	Waves         []Wave  `json:"waves"`
	// Limited and Served are what became of the viral topic's readers in the first wave and
	// in the second.
	Limited Readers `json:"limited"`
	Served  Readers `json:"served"`
	// Adaptive is the third: before the site became slow, and from then on.
	Adaptive struct {
		Quick  Readers `json:"quick"`
		Slow   Readers `json:"slow"`
		Limits []Limit `json:"limits"`
	} `json:"adaptive"`
	// Course is the viral topic second by second; none of a demo without an end.
	Course []Second `json:"course,omitempty"`
	// Behind counts requests that this machine was too slow to send.
	Behind uint64                `json:"behind"`
	Report hottype.LimiterReport `json:"report"`
}

// tooBusy reports whether this machine was, so that the numbers say little.
func (r *Result) tooBusy() bool {
	g := &r.Groups
	return r.Behind > (g.Quiet.Total()+g.Viral.Total()+g.Crawler.Total()+g.Loop.Total())/10
}

// Second is what became of the viral topic's readers in one second.
type Second struct {
	Seconds float64 `json:"at_s"` // since the beginning, at its end
	Seen
	Site uint64 `json:"site"` // requests that reached the site
}

// Limit is what the adaptive limit was in one second, and why.
type Limit struct {
	// Seconds since the beginning.
	Seconds float64 `json:"at_s"`
	// Rate of the viral topic, requests a second, and how many of them may be in flight.
	Rate     float64 `json:"rate"`
	InFlight float64 `json:"in_flight_cap"`
	// LatencyMS is within which nine of ten pages of the site came.
	LatencyMS float64 `json:"latency_ms"`
	Why       string  `json:"why"`
}

// Readers is what became of the viral topic's readers in a wave.
type Readers struct {
	Seen
	// Seconds that it lasted, and Site how many of the requests reached the site.
	Seconds float64 `json:"seconds"`
	Site    uint64  `json:"site"`
}

// note keeps what became of the viral topic's readers in a second.
func (s *show) note(at time.Duration, seen Seen) {
	site := s.site.viral.Load()
	if s.opts.Duration > 0 { // what goes on for ever keeps no list
		s.course = append(s.course, Second{at.Seconds(), seen, site - s.siteBefore})
	}
	s.siteBefore = site
}

// follow notes what the adaptive limit is, and tells when it has moved by more than a fifth.
func (s *show) follow(at time.Duration, bounds []hottype.UpstreamLimit) {
	if phase := s.plan.phase(at); len(bounds) == 0 || phase != adaptive && phase != slowed {
		s.lastRate = 0
		return
	}
	b := &bounds[0]
	l := Limit{at.Seconds(), b.Rate, b.InFlight, 1000 * b.MeasuredLatency, b.Reason}
	if s.opts.Duration > 0 {
		s.limits = append(s.limits, l)
	}
	if !b.Saturated || math.Abs(l.Rate-s.lastRate) <= s.lastRate/5 {
		return
	}
	s.lastRate = l.Rate
	s.screen.note(at, notice, "  limit %.0f/s: nine of ten pages within %.0f ms; %s", l.Rate, l.LatencyMS, l.Why)
}

func (s *show) result() Result {
	r := Result{DurationSeconds: time.Since(s.start).Seconds(), Waves: s.watch.Waves(),
		Course: s.course, Behind: s.visitors.Behind.Load(), Report: s.local.Report()}
	r.Groups.Quiet, r.Groups.Viral, r.Groups.Crawler = s.visitors.Seen(Quiet), s.visitors.Seen(Viral),
		s.visitors.Seen(Crawler)
	r.Groups.Loop = s.visitors.Seen(Loop)
	r.Limited, r.Served = s.waves[limited], s.waves[served]
	r.Adaptive.Quick, r.Adaptive.Slow, r.Adaptive.Limits = s.waves[adaptive], s.waves[slowed], s.limits
	r.QuietAnswered = 100
	if n := r.Groups.Quiet.Total(); n > 0 {
		r.QuietAnswered = 100 * float64(r.Groups.Quiet.OK) / float64(n)
	}
	return r
}

func writeJSON(path string, r Result) error {
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("demo: --json: %w", err)
	}
	return nil
}
