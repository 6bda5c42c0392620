package trace

import "math/rand/v2"

// AgainstSpaceSaving returns an attack on summaries in which a new key takes over the count of the lightest key. Keys
// that come once raise that count all second long. Then each victim comes once, last, takes over the count, and keeps
// it. So keys with one request a second seem hot.
func AgainstSpaceSaving(seed uint64) *Trace { return againstSpaceSaving().make(seed) }

func againstSpaceSaving() shape {
	const victims, hot, rate = 20, 3, 200
	return shape{name: "against Space-Saving", seconds: 15, perSecond: 60_000, unique: true, hot: shapeHot,
		about: "60,000 keys a second that come once, 20 victims once at each second's end, 3 keys with 200/s",
		event: func(tick int, r *rand.Rand) (_, spread, last []int64) {
			for k := range int64(hot) {
				spread = repeat(spread, events+k, count(rate, r))
			}
			for k := range int64(victims) {
				if tick*Tick%1000 == 1000-Tick {
					last = append(last, events+hot+k)
				}
			}
			return nil, spread, last
		}}
}

// Cell returns the cell of a key in a row of a sketch. An attacker knows it if the hash functions are public, as in a
// library with fixed seeds.
type Cell func(row int, key string) uint64

// sharers returns, for each key of an event and each row of a sketch, a number whose key shares the key's cell there.
func sharers(keys int64, rows int, cell Cell) (numbers []int64) {
	next := events + keys
	for k := range keys {
		for row := range rows {
			for want := cell(row, key(events+k)); cell(row, key(next)) != want; {
				next++
			}
			numbers, next = append(numbers, next), next+1
		}
	}
	return numbers
}

// The rate of keys that must stay below the threshold.
const belowHot = 0.92 * shapeHot * 1000 / Window

// AgainstCountMin returns an attack on count-min sketches. For each victim and each row of the sketch it has a key that
// shares the victim's cell in that row. None of these keys is hot, but together they make the victim seem so.
func AgainstCountMin(rows int, cell Cell, seed uint64) *Trace {
	return againstCountMin(rows, cell).make(seed)
}

func againstCountMin(rows int, cell Cell) shape {
	const victims, own = 20, 20
	others := sharers(victims, rows, cell)
	return shape{name: "against count-min", seconds: 30, perSecond: 12_000, hot: shapeHot,
		about: "20 victims with 20/s; for each row of the sketch a key with 92/s that shares the victim's cell",
		event: func(_ int, r *rand.Rand) (_, spread, _ []int64) {
			for v := range int64(victims) {
				spread = repeat(spread, events+v, count(own, r))
			}
			for _, k := range others {
				spread = repeat(spread, k, count(belowHot, r))
			}
			return nil, spread, nil
		}}
}

// AgainstHeavyKeeper returns an attack on sketches that leave a cell to its owner, such as HeavyKeeper. Before a hidden
// key begins, its cell in each row of the sketch is taken by another key, which is not hot.
func AgainstHeavyKeeper(rows int, cell Cell, seed uint64) *Trace {
	return againstHeavyKeeper(rows, cell).make(seed)
}

func againstHeavyKeeper(rows int, cell Cell) shape {
	const hidden, rate, from = 10, 300, 10 * 1000 / Tick
	others := sharers(hidden, rows, cell)
	return shape{name: "against HeavyKeeper", seconds: 30, perSecond: 14_000, hot: shapeHot,
		about: "10 keys with 300/s begin in second 10; for each row of the sketch a key with 92/s has taken their cell",
		event: func(tick int, r *rand.Rand) (_, spread, _ []int64) {
			for _, k := range others {
				spread = repeat(spread, k, count(belowHot, r))
			}
			for k := range int64(hidden) {
				if tick >= from {
					spread = repeat(spread, events+k, count(rate, r))
				}
			}
			return nil, spread, nil
		}}
}

// AgainstSampling returns an attack on windows that end: each key has all of its requests around the end of a window,
// half of them on each side.
func AgainstSampling(seed uint64) *Trace { return againstSampling().make(seed) }

func againstSampling() shape {
	const keys, around, rate = 20, 1000 / Tick, 0.6 * shapeHot
	return shape{name: "against sampling", seconds: 40, perSecond: 14_000, hot: shapeHot,
		about: "every 5 s 20 new keys have 1.2 times the threshold, half in the second before and half in the next",
		event: func(tick int, r *rand.Rand) (_, spread, _ []int64) {
			const window = Window / Tick
			set := int64(tick+around) / window
			if into := (tick + around) % window; into < 2*around && set > 0 {
				for k := range int64(keys) {
					spread = repeat(spread, events+set*keys+k, count(rate, r))
				}
			}
			return nil, spread, nil
		}}
}
