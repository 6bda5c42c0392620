package trace

import (
	"math"
	"math/rand/v2"
	"slices"
)

// shape describes a trace that is made tick by tick, over a background of YCSB's zipfian items.
type shape struct {
	name, about        string
	seconds, perSecond int  // of the background
	unique             bool // the background has keys that come once, instead of items
	hot                int
	// event returns the numbers of the keys that it adds to the background in a tick, from events on. The keys of first
	// begin the tick, in their order, and the keys of last end it. The others are spread over the tick by chance.
	event func(tick int, r *rand.Rand) (first, spread, last []int64)
	// crowd is true if each request has a client of its own.
	crowd bool
}

// events is the first number of a key that an event makes. The background has lower numbers.
const events = 10_000_000

// make makes the trace.
func (s shape) make(seed uint64) *Trace {
	const ticks = 1000 / Tick
	r, keys := random(seed, s.name), newNames(key)
	each := s.perSecond / ticks
	background := Zipfian(s.seconds*s.perSecond, seed)
	if s.unique {
		for i := range background {
			background[i] = int64(i)
		}
	}
	t := &Trace{Name: s.name, About: s.about, Hot: s.hot}
	for tick := range s.seconds * ticks {
		first, spread, last := s.event(tick, r)
		numbers := slices.Concat(spread, background[tick*each:(tick+1)*each])
		r.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		numbers = slices.Concat(first, numbers, last)
		for i, number := range numbers {
			client := r.Uint32N(clients)
			if s.crowd {
				client = uint32(len(t.Requests))
			}
			at := int32(tick*Tick + i*Tick/len(numbers))
			t.Requests = append(t.Requests, Request{at, keys.number(number), client})
		}
	}
	t.Keys = keys.list
	return t
}

// poisson returns how many requests of a rate fall into a tick by chance.
func poisson(perSecond float64, r *rand.Rand) (n int) {
	for left := r.ExpFloat64(); left < perSecond*Tick/1000; left += r.ExpFloat64() {
		n++
	}
	return n
}

// count returns the number of requests of a rate in a tick, by chance only if that is not a whole number.
func count(perSecond float64, r *rand.Rand) int {
	whole, part := math.Modf(max(perSecond, 0) * Tick / 1000)
	if r.Float64() < part {
		whole++
	}
	return int(whole)
}

func repeat(to []int64, key int64, n int) []int64 {
	for range n {
		to = append(to, key)
	}
	return to
}

// Shapes returns the traces that are made by the shapes of published traffic.
func Shapes(seed uint64) []*Trace {
	var all []*Trace
	for _, s := range []shape{flashCrowd(), rotatingSet(), slowBurn(), uniqueFlood()} {
		all = append(all, s.make(seed))
	}
	return all
}

// The rate of the shapes, and the count of a hot key.
const shapeRate, shapeHot = 20_000, shapeRate * Window / 1000 / 200

// flashCrowd has the shape that Jung, Krishnamurthy and Rabinovich give flash crowds (WWW 2002): within seconds
// many clients ask for a key that was quiet before, once each; then interest fades.
func flashCrowd() shape {
	const every, rises, stays, top = 9.0, 3.0, 2.0, 3000.0
	return shape{name: "flash crowd", seconds: 40, perSecond: 15_000, hot: shapeHot, crowd: true,
		about: "every 9 s a new key rises from 0 to 3000/s in 3 s, stays 2 s, and halves each second",
		event: func(tick int, r *rand.Rand) (_, spread, _ []int64) {
			for k := range 4 {
				since, rate := float64(tick)*Tick/1000-4-float64(k)*every, 0.0
				switch {
				case since < 0:
				case since < rises:
					rate = top * since / rises
				case since < rises+stays:
					rate = top
				default:
					rate = top * math.Exp2(rises+stays-since)
				}
				spread = repeat(spread, events+int64(k), poisson(rate, r))
			}
			return nil, spread, nil
		}}
}

// rotatingSet replaces all hot keys every ten seconds.
func rotatingSet() shape {
	const hot, rate, every = 40, 150, 10
	return shape{name: "rotating hot set", seconds: 40, perSecond: shapeRate - hot*rate, hot: shapeHot,
		about: "40 keys have 150/s each, and every 10 s another 40",
		event: func(tick int, r *rand.Rand) (_, spread, _ []int64) {
			set := int64(tick * Tick / 1000 / every)
			for k := range int64(hot) {
				spread = repeat(spread, events+set*hot+k, poisson(rate, r))
			}
			return nil, spread, nil
		}}
}

// slowBurn has keys that grow slowly across the threshold.
func slowBurn() shape {
	const keys, low, high, lasts = 20, 40, 160, 30.0
	return shape{name: "slow burn", seconds: 40, perSecond: shapeRate - 2000, hot: shapeHot,
		about: "20 keys grow from 40/s to 160/s in 30 s, one after the other",
		event: func(tick int, r *rand.Rand) (_, spread, _ []int64) {
			for k := range int64(keys) {
				part := (float64(tick)*Tick/1000 - float64(k)/2) / lasts
				spread = repeat(spread, events+k, poisson(low+(high-low)*min(max(part, 0), 1), r))
			}
			return nil, spread, nil
		}}
}

// uniqueFlood hides hot keys among keys that come once.
func uniqueFlood() shape {
	const keys, rate, from = 5, 200, 10 * 1000 / Tick
	return shape{name: "flood of unique keys", seconds: 30, perSecond: 50_000, unique: true, hot: shapeHot,
		about: "50,000 keys a second that come once, and from second 10 on 5 keys with 200/s each",
		event: func(tick int, r *rand.Rand) (_, spread, _ []int64) {
			for k := range int64(keys) {
				if tick >= from {
					spread = repeat(spread, events+k, poisson(rate, r))
				}
			}
			return nil, spread, nil
		}}
}
