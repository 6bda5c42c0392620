package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	ticks  = 10 // judgements in a second
	window = 5  // seconds
	rate   = 200
)

// stream is some traffic. Keys are numbers.
type stream struct {
	name, group string
	keys        int // all numbers are below it
	perSecond   int // requests of made traffic, without the requests of keys to be found
	seconds     int
	sizes       []int // numbers of counters to try
	// open begins the traffic. The function that it returns makes the requests of a tick, in their order.
	open func() func(tick int, ids []uint32) []uint32
	set  *rules.Set
	// names are the keys of logs, and numbers maps the keys back. Without names a key is "topic?id=NUMBER".
	names   []hottype.Key
	numbers map[hottype.Key]uint32
}

// threshold returns the count over the window at which a key is hot.
func (s *stream) threshold() int64 { return s.set.Rules[0].Threshold() }

// counts returns the counts of requests, one count each.
func (s *stream) counts(ids []uint32, second int64, counts []hottype.Count) []hottype.Count {
	counts = counts[:0]
	if s.names != nil {
		for _, id := range ids {
			counts = append(counts, hottype.Count{Key: s.names[id], N: 1, Second: second})
		}
		return counts
	}
	const prefix = "topic?id="
	text := make([]byte, 0, 20*len(ids))
	ends := make([]int, 0, len(ids))
	for _, id := range ids {
		text = strconv.AppendUint(append(text, prefix...), uint64(id), 10)
		ends = append(ends, len(text))
	}
	all, from := string(text), 0
	for _, end := range ends {
		counts = append(counts, hottype.Count{Key: hottype.Key(all[from:end]), N: 1, Second: second})
		from = end
	}
	return counts
}

// number returns the number of a key.
func (s *stream) number(key hottype.Key) uint32 {
	if s.names != nil {
		id, ok := s.numbers[key]
		if !ok {
			panic("study: a key that was not sent: " + string(key))
		}
		return id
	}
	_, id, _ := strings.Cut(string(key), "=")
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		panic("study: a key that was not sent: " + string(key))
	}
	return uint32(n)
}

// topicRule returns a set with one rule.
func topicRule(hot string) *rules.Set {
	set, err := rules.Parse("study.yaml", fmt.Appendf(nil,
		"rules:\n  - {name: topic, match: {path: /topic}, params: [id], hot: {%s}}\n", hot))
	if err != nil {
		panic(err) // a mistake of this program
	}
	return set
}

var largeSizes = []int{1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18}

// streams returns all made streams. part makes them smaller, for a test.
func streams(seed uint64, part float64) []*stream {
	scale := func(n int) int { return int(float64(n) * part) }
	var all []*stream
	for _, keys := range []int{1_000_000, 10_000_000} {
		for _, s := range []float64{0.8, 1.0, 1.2} {
			all = append(all, &stream{
				name: fmt.Sprintf("Zipf %.1f, %d M keys", s, keys/1_000_000), group: "zipf",
				keys: keys, perSecond: scale(100_000), seconds: 16, open: zipfTraffic(seed, s, keys, scale(100_000)),
			})
		}
	}
	flood := &stream{name: "flood, 10 M keys once each", group: "hostile", keys: 11_000_000,
		perSecond: scale(1_000_000), seconds: 10, open: floodTraffic(seed, scale(1_000_000))}
	pulse := &stream{name: "pulses over Zipf 1.0", group: "hostile", keys: 1_000_100, perSecond: scale(100_000),
		seconds: 16, open: pulseTraffic(seed, scale(100_000))}
	drip := &stream{name: "drips below a flood", group: "hostile", keys: 2_000_000, perSecond: scale(100_000),
		seconds: 16, open: dripTraffic(seed, scale(100_000))}
	all = append(all, flood, pulse, drip)
	for _, s := range all {
		s.sizes = largeSizes
		s.set = topicRule(fmt.Sprintf("rate: %d, window: %ds", rate, window))
	}
	return all
}

func source(seed, which uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, which)) }

// zipfTraffic makes perSecond requests a second. At half time the hundred most popular keys change places with a
// hundred others, so that all hot keys are new.
func zipfTraffic(seed uint64, s float64, keys, perSecond int) func() func(int, []uint32) []uint32 {
	const swapped, partner, half = 100, 50_000, 8 * ticks
	return func() func(int, []uint32) []uint32 {
		z, r := newZipf(s, keys), source(seed, uint64(s*10)+uint64(keys))
		return func(tick int, ids []uint32) []uint32 {
			for range perSecond / ticks {
				id := uint32(z.rank(r) - 1)
				switch {
				case tick < half:
				case id < swapped:
					id += partner
				case id >= partner && id < partner+swapped:
					id -= partner
				}
				ids = append(ids, id)
			}
			return ids
		}
	}
}

// floodTraffic makes keys that come once, and from the fifth second on five hot keys, 500 times a second each.
func floodTraffic(seed uint64, perSecond int) func() func(int, []uint32) []uint32 {
	const needles, needleRate, from = 5, 500, 4 * ticks
	return func() func(int, []uint32) []uint32 {
		r, next := source(seed, 7), uint32(needles)
		return func(tick int, ids []uint32) []uint32 {
			for range perSecond / ticks {
				ids = append(ids, next)
				next++
			}
			if tick >= from {
				ids = appendMany(ids, 0, needles, needleRate/ticks)
			}
			return shuffled(r, ids)
		}
	}
}

// pulseTraffic has a new key every half second that gets 1.2 times its threshold within 300 ms, and then no more
// requests.
func pulseTraffic(seed uint64, perSecond int) func() func(int, []uint32) []uint32 {
	const keys, from, length = 1_000_000, 6 * ticks, 3
	background := zipfTraffic(seed, 1, keys, perSecond)
	return func() func(int, []uint32) []uint32 {
		r, under := source(seed, 8), background()
		return func(tick int, ids []uint32) []uint32 {
			ids = under(tick, ids)
			if tick >= from && tick%5 < length {
				ids = appendMany(ids, uint32(keys+(tick-from)/5), 1, rate*window*12/10/length)
			}
			return shuffled(r, ids)
		}
	}
}

// dripTraffic makes keys that come once, and spread evenly among them twenty keys at 0.9 of the threshold, which must
// not become hot, and twenty at 1.1.
func dripTraffic(seed uint64, perSecond int) func() func(int, []uint32) []uint32 {
	const low, all, from = 20, 40, 6 * ticks
	return func() func(int, []uint32) []uint32 {
		r, next := source(seed, 9), uint32(100)
		return func(tick int, ids []uint32) []uint32 {
			for range perSecond / ticks {
				ids = append(ids, next)
				next++
			}
			if tick >= from {
				ids = appendMany(ids, 0, low, rate*9/10/ticks)
				ids = appendMany(ids, low, all-low, rate*11/10/ticks)
			}
			return shuffled(r, ids)
		}
	}
}

func appendMany(ids []uint32, first uint32, keys, each int) []uint32 {
	for k := range keys {
		for range each {
			ids = append(ids, first+uint32(k))
		}
	}
	return ids
}

func shuffled(r *rand.Rand, ids []uint32) []uint32 {
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}
