package main

import (
	"flag"
	"fmt"
	"hash/maphash"
	"os"
	"runtime"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; every contender runs once in each")
	updates := flag.Int("updates", 1_500_000, "updates that one measurement makes")
	needles := flag.Bool("needles", true, "also look for five hot keys among ten million")
	report := measure.NewReport("window", "github.com/keilerkonzept/topk")
	report.Seed = "1, 2"
	flag.Parse()
	if err := run(report, *rounds, *updates, *needles); err != nil {
		fmt.Fprintln(os.Stderr, "window:", err)
		os.Exit(1)
	}
}

func run(report *measure.Report, rounds, updates int, needles bool) error {
	sheet := measure.NewSheet(measure.Higher, "M updates per CPU second", "memory, MB", "error, requests")
	if err := measure.Rounds(rounds, costCases(sheet, updates)...); err != nil {
		return err
	}
	if !needles {
		return report.Write(sheet)
	}
	found, err := findNeedles()
	if err != nil {
		return err
	}
	return report.Write(sheet, found)
}

func costCases(sheet *measure.Sheet, updates int) []func() error {
	var cases []func() error
	add := func(t *traffic, weight int64, who string, build func() (counter, error)) {
		q := question{sheet, t, weight, updates}
		cases = append(cases, func() error { return q.cost(who, build) })
	}
	both := func(t *traffic, weight int64) {
		add(t, weight, measure.Ours, func() (counter, error) { return newDetector(weight, 0) })
		add(t, weight, peer, func() (counter, error) { return newSketch(), nil })
	}
	few, many, new := zipf(10_000), zipf(10_000_000), flood()
	for _, t := range []*traffic{few, many, new} {
		both(t, 1)
		add(t, 1, "(only hashing the key)", func() (counter, error) { return &hashing{seed: maphash.MakeSeed()}, nil })
	}
	add(many, 1, "hotparam, window without judgement", func() (counter, error) { return newAlone(), nil })
	add(new, 1, "hotparam, 6 M counters", func() (counter, error) { return newDetector(1, 6_000_000) })
	for _, t := range []*traffic{few, many, new} {
		add(t, 1, "plain Space-Saving, as many counters",
			func() (counter, error) { return newSaving(detect.DefaultCounters), nil })
	}
	both(many, 1000)
	both(new, 1000)
	return cases
}

// patience bounds each of the two parts of a measurement in CPU time, because the sketch takes a step for every unit of
// a weight.
const patience = time.Second

// question is one row of the table.
type question struct {
	sheet   *measure.Sheet
	traffic *traffic
	weight  int64
	updates int
}

// cost feeds a counter for a window and a half, and then measures.
func (q question) cost(who string, build func() (counter, error)) error {
	before := live()
	c, err := build()
	if err != nil {
		return err
	}
	warm, _ := q.feed(c, 0, perSecond*windowSeconds*3/2)
	made, cpu := q.feed(c, warm, q.updates)
	known := 0.0
	if c, ok := c.(interface{ error() int64 }); ok {
		known = float64(c.error())
	}
	q.sheet.Add(fmt.Sprintf("%s, weight %d", q.traffic.name, q.weight), who,
		float64(made)/cpu.Seconds()/1e6, max(live()-before, 0), known)
	runtime.KeepAlive(c)
	return nil
}

// feed makes up to n updates from the i-th on, at perSecond, and returns their number and the CPU time that they took.
// The time of drawing the next keys is not included: the keys are in the cache, as are the keys of a packet or a record
// that was just read.
func (q question) feed(c counter, i, n int) (made int, took time.Duration) {
	const step = 1000
	counts := make([]hottype.Count, step)
	for ; made < n && took < patience; made += step {
		now := start.Add(time.Duration(i+made) * time.Second / perSecond)
		for k := range counts {
			counts[k] = hottype.Count{Key: q.traffic.key(i + made + k), N: q.weight, Second: now.Unix()}
			touched += uint64(counts[k].Key[0])
		}
		began := measure.CPU()
		c.add(now, counts)
		if (i+made)%(perSecond/ticks) == 0 {
			c.judge(now)
		}
		took += measure.CPU() - began
	}
	return made, took
}

// touched keeps the compiler from leaving out code that only fetches.
var touched uint64

// live returns the heap that the garbage collector leaves, in MB.
func live() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}
