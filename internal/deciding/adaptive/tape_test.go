package adaptive

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

var update = flag.Bool("update", false, "write testdata/tape.txt")

// course is the input of a tape: an upstream with a queue, and the requests for it.
type course struct {
	name        string
	target      rules.UpstreamTarget
	least, most float64
	// at returns, for a second, the capacity of the upstream, its latency without a queue, the requests for hot and for
	// cold keys, and the share of them that fails. every is the interval of reports and late their delay, in seconds.
	at          func(second int) (capacity, latency, hot, cold, failing float64)
	every, late int
}

// between is v in a range of seconds, else other.
func between(second, from, to int, v, other float64) float64 {
	if second >= from && second < to {
		return v
	}
	return other
}

var courses = []course{
	{name: "onset, more capacity, less capacity", target: rules.UpstreamTarget{Latency: 200 * time.Millisecond},
		least: 5,
		most:  1000, at: func(i int) (float64, float64, float64, float64, float64) {
			return between(i, 40, 60, 300, 200), 0.04, between(i, 8, 80, 600, 20), 30, 0
		}},
	{name: "a target by the latency itself", target: rules.UpstreamTarget{Quantile: 0.5}, least: 10, most: 400,
		at: func(i int) (float64, float64, float64, float64, float64) {
			return 100, between(i, 45, 90, 0.09, 0.05), between(i, 5, 70, 150+10*float64(i%7), 40), 10, 0
		}},
	{name: "errors", target: rules.UpstreamTarget{Latency: 300 * time.Millisecond, Errors: 0.05}, least: 2, most: 300,
		at: func(i int) (float64, float64, float64, float64, float64) {
			return 150, 0.1, between(i, 4, 70, 220, 10), 5, between(i, 20, 30, 0.08, between(i, 50, 56, 0.5, 0.001))
		}},
	{name: "few requests, judged together", target: rules.UpstreamTarget{Latency: 500 * time.Millisecond}, least: 1,
		most: 50,
		at: func(i int) (float64, float64, float64, float64, float64) {
			return between(i, 30, 60, 4, 12), 0.1, between(i, 10, 80, 14, 2), 1, 0
		}},
	{name: "a target that cannot be held", target: rules.UpstreamTarget{Latency: 50 * time.Millisecond}, least: 20,
		most: 200,
		at: func(i int) (float64, float64, float64, float64, float64) {
			return between(i, 10, 60, 15, 150), between(i, 10, 60, 0.2, 0.02), 100, 10, between(i, 30, 40, 0.4, 0)
		}},
	{name: "late reports", target: rules.UpstreamTarget{Latency: 200 * time.Millisecond}, least: 5, most: 1000,
		every: 2,
		late:  2, at: func(i int) (float64, float64, float64, float64, float64) {
			return 200, 0.04, between(i, 8, 70, 500, 20), between(i, 40, 60, 120, 30), 0
		}},
	{name: "a report in six seconds", target: rules.UpstreamTarget{Latency: 200 * time.Millisecond}, least: 5,
		most: 1000, every: 6, at: func(i int) (float64, float64, float64, float64, float64) {
			return between(i, 50, 70, 40, 120), 0.05, between(i, 12, 85, 400, 20), 15, between(i, 30, 40, 0.03, 0)
		}},
	{name: "an upstream that becomes slower at any rate", target: rules.UpstreamTarget{Latency: 300 * time.Millisecond},
		least: 5, most: 600, at: func(i int) (float64, float64, float64, float64, float64) {
			return 150, between(i, 20, 60, 0.12, 0.05), between(i, 5, 85, 160+8*float64(i%5), 20), 10, 0
		}},
	{name: "an upstream that stops", target: rules.UpstreamTarget{Latency: 100 * time.Millisecond, Errors: 0.02}, least: 10,
		most: 300, at: func(i int) (float64, float64, float64, float64, float64) {
			return between(i, 25, 65, 3, 200), between(i, 25, 65, 0.5, 0.03), between(i, 5, 88, 250, 15),
				between(i, 45, 60, 80, 8), between(i, 25, 35, 0.2, between(i, 70, 74, 0.05, 0))
		}},
	{name: "a few requests and failures", target: rules.UpstreamTarget{Latency: 400 * time.Millisecond, Errors: 0.1},
		least: 1, most: 20, every: 3, late: 1, at: func(i int) (float64, float64, float64, float64, float64) {
			return between(i, 40, 60, 3, 7), 0.15, 9, 1, between(i, 20, 30, 0.3, 0)
		}},
}

// run drives a controller through a course, second by second, and writes the bounds that it publishes.
func (c course) run(out *bytes.Buffer) {
	fmt.Fprintf(out, "# %s\n", c.name)
	control, bound, queue := New(c.target, c.least, c.most), hottype.UpstreamLimit{Rate: c.most}, 0.0
	for i := range 90 {
		capacity, latency, hot, cold, failing := c.at(i)
		admitted := math.Round(min(hot, bound.Rate))
		arrived := queue + admitted + cold
		served := math.Round(min(arrived, capacity))
		waits := latency + queue/capacity
		queue = min(arrived-served, capacity) // of a second; the others time out
		m := Measurement{
			At: begin.Add(time.Duration(i-c.late) * time.Second), OK: int64(served * (1 - failing)),
			Errors: int64(served*failing + max(0, arrived-served-capacity)), Hot: int64(admitted), Cold: int64(cold),
			Denied: int64(hot - admitted), InFlight: served*latency + queue,
		}
		for j, part := range []float64{0.6, 0.8, 1, 1.3, 2} {
			m.Latency.addN(time.Duration(waits*part*float64(time.Second)), int64(served+float64(j))/5)
		}
		var reports []Measurement
		if c.every == 0 || i%c.every == 0 {
			reports = append(reports, m)
		}
		bound = control.Tick(begin.Add(time.Duration(i)*time.Second), reports)
		fmt.Fprintf(out, "%2d %.5g %.5g %.4g %t %t %t %.4g %.4g %.3g %.4g %s\n", i, bound.Rate, bound.InFlightCap,
			bound.TargetMeanSeconds,
			bound.Saturated, bound.Unreachable, !bound.At.IsZero(), bound.LatencySeconds,
			bound.TargetSeconds, bound.Errors,
			bound.InFlight,
			bound.Why)
	}
}

// randomCourse is an upstream that changes every few seconds, and requests that do.
func randomCourse(seed uint64) course {
	r := rand.New(rand.NewPCG(seed, 0))
	among := func(list ...float64) float64 { return list[r.IntN(len(list))] }
	least := among(1, 2, 10, 50)
	c := course{
		name: fmt.Sprint("random course ", seed), least: least, most: least * among(3, 20, 200),
		every: int(among(0, 0, 0, 2, 6)), late: int(among(0, 0, 1, 2, 4, 5)),
		target: rules.UpstreamTarget{Latency: time.Duration(among(0, 50, 200, 200, 500)) * time.Millisecond,
			Quantile: among(0, 0.5, 0.99), Errors: among(0, 0, 0.05, 0.2)},
	}
	var parts [10][5]float64
	for i := range parts {
		parts[i] = [5]float64{c.most * among(0.05, 0.2, 0.5, 0.5, 1.2), among(0.02, 0.05, 0.05, 0.1, 0.3),
			c.most * among(0, 0.1, 0.4, 0.9, 3), c.most * among(0, 0.02, 0.02, 0.1, 0.6),
			among(0, 0, 0, 0.003, 0.03, 0.12, 0.5)}
	}
	c.at = func(i int) (float64, float64, float64, float64, float64) {
		p := parts[i*len(parts)/90]
		return p[0], p[1], p[2] * (1 + 0.1*float64(i%3)), p[3], p[4]
	}
	return c
}

// The controller is a law with many constants, which were found by simulation. The tape holds its outputs second by
// second, and a digest of random courses, so that no change of them is by mistake. -update records it again.
func TestController_Tape(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, c := range courses {
		c.run(&got)
	}
	for seed := range uint64(100) {
		var one bytes.Buffer
		c := randomCourse(seed)
		c.run(&one)
		fmt.Fprintf(&got, "%s: %.4x\n", c.name, sha256.Sum256(one.Bytes()))
	}
	const file = "testdata/tape.txt"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	is, was := bytes.Split(got.Bytes(), []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(is), len(was)) {
		if !bytes.Equal(is[i], was[i]) {
			t.Fatalf("line %d, -update if the change is meant:\n got %s\nwant %s", i+1, is[i], was[i])
		}
	}
	if len(is) != len(was) {
		t.Errorf("%d lines, want %d; -update, if the change is meant", len(is), len(was))
	}
}
