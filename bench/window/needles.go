package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	hayPerSecond = 1_000_000 // keys that come only once
	haySeconds   = 10
	needleCount  = 5
	needleRate   = 500 // a second; hot is 200 a second over 5 s
	lateStart    = 4   // second in which late needles begin
)

// finding holds the results about the needles.
type finding struct {
	at         map[hottype.Key]time.Duration // from a needle's first request until it was found hot
	false      map[hottype.Key]bool
	peak, idle float64 // heap in MB, in the flood and a window and a half after it
	err        int64   // as the detector knows it, at the end of the flood
}

func findNeedles() (*measure.Sheet, error) {
	sheet := measure.NewSheet(measure.Higher, fmt.Sprintf("found, of %d", needleCount), "false", "first found after, s",
		"last found after, s", "heap in the flood, MB", "heap after, MB", "known error, requests")
	for _, from := range []int{0, lateStart} {
		for _, who := range []string{measure.Ours, peer} {
			f, err := search(who, from)
			if err != nil {
				return nil, err
			}
			first, last := f.span()
			sheet.Add(fmt.Sprintf("five hot keys among %d M, from second %d on", hayPerSecond*haySeconds/1_000_000, from),
				who, float64(len(f.at)), float64(len(f.false)), first, last, f.peak, f.idle, float64(f.err))
		}
	}
	return sheet, nil
}

// span returns the seconds until the first needle was found and until the last was. Without a needle they are 0.
func (f *finding) span() (first, last float64) {
	if len(f.at) == 0 {
		return 0, 0
	}
	times := slices.Sorted(maps.Values(f.at))
	return times[0].Seconds(), times[len(times)-1].Seconds()
}

func search(who string, from int) (*finding, error) {
	runtime.GC()
	before := live()
	f := &finding{at: map[hottype.Key]time.Duration{}, false: map[hottype.Key]bool{}}
	var c counter = newSketch()
	if who == measure.Ours {
		d, err := newDetector(1, 0)
		if err != nil {
			return nil, err
		}
		c = d
	}
	const steps = haySeconds * ticks
	for step := range steps + 15*ticks {
		now := start.Add(time.Duration(step) * time.Second / ticks)
		if step < steps {
			pour(c, now, step, from)
		}
		f.judge(c, now, start.Add(time.Duration(from)*time.Second))
		if step == steps-1 {
			if c, ok := c.(detector); ok {
				f.err = c.error()
			}
			f.peak = live() - before
		}
	}
	f.idle = live() - before
	runtime.KeepAlive(c)
	return f, nil
}

// pour adds a tenth of a second: keys that come only once, with needles among them.
func pour(c counter, now time.Time, step, from int) {
	const hay, needles = hayPerSecond / ticks, needleRate * needleCount / ticks
	counts := make([]hottype.Count, 0, 1001)
	for i := range hay {
		if n := i * needles / hay; step >= from*ticks && n != (i+1)*needles/hay {
			counts = append(counts, hottype.Count{Key: needle(n % needleCount), N: 1, Second: now.Unix()})
		}
		counts = append(counts, hottype.Count{Key: uniqueKey(step*hay + i), N: 1, Second: now.Unix()})
		if len(counts) >= 1000 || i == hay-1 {
			c.add(now, counts)
			counts = counts[:0]
		}
	}
}

func needle(n int) hottype.Key { return hottype.Key("topic?id=needle-" + strconv.Itoa(n)) }

// judge records the keys that are hot now.
func (f *finding) judge(c counter, now, began time.Time) {
	note := func(key hottype.Key) {
		for n := range needleCount {
			if key == needle(n) {
				if _, ok := f.at[key]; !ok {
					f.at[key] = now.Sub(began)
				}
				return
			}
		}
		f.false[key] = true
	}
	switch c := c.(type) {
	case detector:
		set, _ := c.Tick(now)
		for _, h := range set.Keys {
			note(h.Key)
		}
	case *sketch:
		c.judge(now)
		for item := range c.Iter {
			if item.Count >= 200*windowSeconds {
				note(hottype.Key(item.Item))
			}
		}
	}
}
