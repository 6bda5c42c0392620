package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; every contender runs once in each")
	updates := flag.Int("updates", 3_000_000, "updates that one measurement makes")
	needles := flag.Bool("needles", true, "also look for five hot keys among ten million")
	flag.Parse()
	if err := run(*rounds, *updates, *needles); err != nil {
		fmt.Fprintln(os.Stderr, "window:", err)
		os.Exit(1)
	}
}

func run(rounds, updates int, needles bool) error {
	sheet := measure.NewSheet(measure.Higher, "M updates per CPU second", "memory, MB", "refused, %")
	if err := measure.Rounds(rounds, costCases(sheet, updates)...); err != nil {
		return err
	}
	if err := sheet.Write(os.Stdout); err != nil || !needles {
		return err
	}
	return findNeedles(os.Stdout)
}

func costCases(sheet *measure.Sheet, updates int) []func() error {
	var cases []func() error
	for _, t := range []*traffic{zipf(), flood()} {
		for _, weight := range []int64{1, 1000} {
			what := fmt.Sprintf("%s, weight %d", t.name, weight)
			add := func(who string, build func() (counter, error)) {
				cases = append(cases, func() error {
					c, err := build()
					if err == nil {
						cost(sheet, what, who, c, t, weight, updates)
					}
					return err
				})
			}
			add(measure.Ours, func() (counter, error) { return newDetector(0) })
			if t.order == nil {
				add("hotparam, cap of 6 M keys", func() (counter, error) { return newDetector(6_000_000) })
			}
			add("hotparam, window without judgement", func() (counter, error) { return newAlone(), nil })
			add(peer, func() (counter, error) { return newSketch(), nil })
		}
	}
	return cases
}

// cost feeds a counter for a window and a half, and then measures.
func cost(sheet *measure.Sheet, what, who string, c counter, t *traffic, weight int64, updates int) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	warm := perSecond * windowSeconds * 3 / 2
	feed(c, t, weight, 0, warm)
	refused, cpu := c.refused(), measure.CPU()
	feed(c, t, weight, warm, updates)
	cpu, refused = measure.CPU()-cpu, c.refused()-refused
	runtime.GC()
	runtime.ReadMemStats(&after)
	sheet.Add(what, who, float64(updates)/cpu.Seconds()/1e6,
		float64(after.HeapAlloc-min(before.HeapAlloc, after.HeapAlloc))/1e6, 100*float64(refused)/float64(updates))
	runtime.KeepAlive(c)
}

// feed makes n updates from the i-th on, at perSecond.
func feed(c counter, t *traffic, weight int64, i, n int) {
	const step = perSecond / ticks
	for end := i + n; i < end; {
		now := start.Add(time.Duration(i) * time.Second / perSecond)
		for range min(step, end-i) {
			c.add(now, t.key(i), weight)
			i++
		}
		c.judge(now)
	}
}
