package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

// cost holds the cost of one stream with one number of counters.
type cost struct {
	Stream   string `json:"stream"`
	Counters int    `json:"counters"`
	// Times is the CPU time of an update, including judgement and collector, divided by the CPU time of an exact count
	// in Go maps in the same round. The exact count has one map for each second and judges nothing. Times holds the
	// median, the minimum and the maximum of the rounds.
	Times     [3]float64 `json:"times_maps"`
	PerSecond float64    `json:"m_updates_per_cpu_second"` // millions, median
	Bytes     int64      `json:"bytes"`                    // as the detector reports at the end of the stream
	Heap      int64      `json:"heap"`                     // as the collector finds then
	Idle      int64      `json:"heap_idle"`                // as the collector finds a window and a second later
}

// costRounds is the number of times that each cost is measured.
const costRounds = 3

// warm is the tick at which measuring begins, and last the tick at which it ends.
const warm, last = 5 * ticks, 10 * ticks

// measureCost plays the first seconds of a stream to a detector of each size, and in every round also to maps.
func measureCost(s *stream) ([]cost, error) {
	costs := make([]cost, len(s.sizes))
	times, speeds := make([][]float64, len(s.sizes)), make([][]float64, len(s.sizes))
	for range costRounds {
		plain, updates := s.feed(mapCount())
		for i, size := range s.sizes {
			costs[i].Stream, costs[i].Counters = s.name, size
			ours, err := costs[i].round(s)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], ours.Seconds()/plain.Seconds())
			speeds[i] = append(speeds[i], float64(updates)/ours.Seconds()/1e6)
		}
	}
	for i := range costs {
		slices.Sort(times[i])
		slices.Sort(speeds[i])
		costs[i].Times = [3]float64{times[i][costRounds/2], times[i][0], times[i][costRounds-1]}
		costs[i].PerSecond = speeds[i][costRounds/2]
	}
	return costs, nil
}

// mapCount returns a function that counts exactly, in a map for each second of the window.
func mapCount() func(time.Time, []hottype.Count) {
	var seconds [window]map[hottype.Key]int64
	current := int64(0)
	return func(now time.Time, counts []hottype.Count) {
		i := now.Unix() % window
		if current != now.Unix() {
			current, seconds[i] = now.Unix(), map[hottype.Key]int64{}
		}
		for k := range counts {
			seconds[i][counts[k].Key] += counts[k].N
		}
	}
}

// feed plays a stream and measures the CPU time of taking the counts. The counts are made between the measurements.
func (s *stream) feed(take func(time.Time, []hottype.Count)) (spent time.Duration, updates int) {
	next := s.open()
	var ids []uint32
	var batch []hottype.Count
	runtime.GC()
	for tick := range min(last, s.seconds*ticks) {
		ids = next(tick, ids[:0])
		now := start.Add(time.Duration(tick) * time.Second / ticks)
		batch = s.counts(ids, now.Unix(), batch)
		before := cpu()
		take(now, batch)
		if tick >= warm {
			spent, updates = spent+cpu()-before, updates+len(batch)
		}
	}
	return spent, updates
}

// round measures a detector once.
func (c *cost) round(s *stream) (time.Duration, error) {
	before := heap()
	d := detect.New(s.set, detect.Options{Counters: c.Counters})
	spent, _ := s.feed(func(now time.Time, counts []hottype.Count) {
		d.AddAll(now, counts)
		d.Tick(now.Add(time.Second/ticks - 1))
	})
	c.Bytes, c.Heap = d.Stats().Bytes, max(heap()-before, 0)
	if most := int64(c.Counters)*200 + 1<<20; c.Bytes > most {
		return 0, fmt.Errorf("study: %s: %d counters take %d bytes, more than %d", s.name, c.Counters, c.Bytes, most)
	}
	for second := range window + 2 {
		d.Tick(start.Add(time.Duration(last/ticks+second) * time.Second))
	}
	c.Idle = max(heap()-before, 0)
	runtime.KeepAlive(d)
	return spent, nil
}

// heap returns the bytes that the collector leaves.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the second collection frees the contents of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// cpu returns the CPU time of this process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // can only be a mistake of this program
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
