package counters

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// stream draws requests of few keys, with pauses.
func stream(t *rapid.T) []Request {
	at, requests := int64(0), []Request(nil)
	for range rapid.IntRange(1, 300).Draw(t, "requests") {
		at += rapid.SampledFrom([]int64{0, 0, 1, 7, 90, 400, 3000}).Draw(t, "pause")
		requests = append(requests, Request{at, item(rapid.IntRange(0, 12).Draw(t, "key"))})
	}
	return requests
}

func item(n int) string { return "item?id=" + strconv.Itoa(n) }

// countsIn returns the counts of the requests from one time to another, that excluded.
func countsIn(requests []Request, from, to int64) map[string]int {
	counts := map[string]int{}
	for _, r := range requests {
		if r.At >= from && r.At < to {
			counts[r.Key]++
		}
	}
	return counts
}

// eachTick feeds the requests tick by tick and calls check after each tick.
func eachTick(c Counter, requests []Request, check func(now int64, hot map[string]float64)) {
	for now := int64(Tick); len(requests) > 0; now += Tick {
		n := 0
		for n < len(requests) && requests[n].At < now {
			n++
		}
		c.Add(requests[:n])
		requests = requests[n:]
		hot := map[string]float64{}
		for _, k := range c.Hot(now, nil) {
			hot[k.Key] = k.N
		}
		check(now, hot)
	}
}

func TestExact_EqualsCountingAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requests := stream(t)
		eachTick(NewExact(Config{Hot: 3}), requests, func(now int64, hot map[string]float64) {
			for key, n := range countsIn(requests, now-Window, now) {
				if got := hot[key]; n >= 3 && got != float64(n) || n < 3 && got != 0 {
					t.Fatalf("at %d: %s has %v, want %d", now, key, got, n)
				}
			}
		})
	})
}

// The detector calls no key hot that is not, at any time. At the end of each second its counts equal the exact count if
// counters are enough, and are never too high otherwise.
func TestHotparam_IsExactOrTooLow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requests, few := stream(t), rapid.Bool().Draw(t, "few")
		budget := 1 << 20
		if few {
			budget = 0 // the least number of counters
		}
		eachTick(NewHotparam(Config{Hot: 5, Budget: budget}), requests, func(now int64, hot map[string]float64) {
			truth := countsIn(requests, now-Window, now)
			for key, n := range hot {
				if truth[key] < 5 {
					t.Fatalf("at %d: %s is hot with %v and has %d", now, key, n, truth[key])
				}
			}
			if now%second != 0 {
				return
			}
			for key, n := range truth {
				if got := hot[key]; got > float64(n) || !few && n >= 5 && got != float64(n) {
					t.Fatalf("at %d: %s has %v, want %d", now, key, got, n)
				}
			}
		})
	})
}

// While no two keys meet in all rows, the sketch equals a count by whole seconds.
func TestHeavyKeeper_CountsWholeSecondsIfAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requests := stream(t)
		eachTick(NewHeavyKeeper(Config{Hot: 3, Budget: 4 << 20}), requests, func(now int64, hot map[string]float64) {
			from := ((now-1)/second - slots + 1) * second
			for key, n := range countsIn(requests, from, now) {
				if got := hot[key]; n >= 3 && got != float64(n) || n < 3 && got != 0 {
					t.Fatalf("at %d: %s has %v, want %d", now, key, got, n)
				}
			}
		})
	})
}

// A sum differs from the truth by at most Error, which is at most the requests of each second over its counters.
func TestSpaceSaving_ErrsByTheLightestCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requests := stream(t)
		size := rapid.IntRange(1, 8).Draw(t, "counters")
		s := NewSpaceSaving(Config{Hot: 1, Budget: size * 100 * slots})
		eachTick(s, requests, func(now int64, _ map[string]float64) {
			first, most := (now-1)/second-slots+1, 0
			for i := range int64(slots) {
				n := 0
				for _, k := range countsIn(requests, (first+i)*second, min((first+i+1)*second, now)) {
					n += k
				}
				most += n / size
			}
			truth := countsIn(requests, first*second, now)
			for k := range 13 {
				if d := s.Sum(item(k)) - truth[item(k)]; max(d, -d) > s.Error() || s.Error() > most {
					t.Fatalf("at %d: item %d is wrong by %d; error %d of %d", now, k, d, s.Error(), most)
				}
			}
		})
	})
}

// WCSS promises, for each key and after each request: f <= count <= f + 4 W/k, over the last W requests.
func TestWCSS_KeepsTheBoundOfItsPaper(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 12).Draw(t, "counters")
		size := rapid.IntRange(1, 9).Draw(t, "block size")
		window := k * size
		keys := rapid.SliceOfN(rapid.IntRange(0, 9), 3*window, 6*window).Draw(t, "keys")
		if rapid.Bool().Draw(t, "skewed") {
			for i := range keys {
				keys[i] = max(keys[i]-6, 0)
			}
		}
		w := newWCSS(1, k, window, float64(window)) // the time of a request is its number
		if w.Error() != int64(4*size) {
			t.Fatalf("error %d with blocks of %d", w.Error(), size)
		}
		for i, key := range keys {
			w.Add([]Request{{int64(i), item(key)}})
			truth := map[int]int64{}
			for _, other := range keys[max(0, i-window+1) : i+1] {
				truth[other]++
			}
			for other := range 10 {
				if d := w.Sum(item(other)) - truth[other]; d < 0 || d > w.Error() {
					t.Fatalf("request %d, %d counters, blocks of %d: item %d is too high by %d", i, k, size, other, d)
				}
			}
		}
	})
}

// The same for a window of time, in which the number of requests changes.
func TestWCSS_KeepsTheBoundOverTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requests := stream(t)
		peak := 0
		for _, r := range requests {
			n := 0
			for _, k := range countsIn(requests, r.At-Window-Tick, r.At+1) {
				n += k
			}
			peak = max(peak, n)
		}
		k := rapid.IntRange(2, 40).Draw(t, "counters")
		w := newWCSS(1, k, peak, Window)
		w.hot = int(w.Error()) // below the error any key could be hot
		eachTick(w, requests, func(now int64, hot map[string]float64) {
			longer := countsIn(requests, now-Window-Window/int64(k)-1, now)
			for key, n := range countsIn(requests, now-Window, now) {
				if got := int(w.Sum(key)); got < n || got > longer[key]+int(w.Error()) {
					t.Fatalf("at %d: %s has %d, in a block more %d, got %d, error %d", now, key, n, longer[key], got,
						w.Error())
				}
				if n >= w.hot && hot[key] < float64(n) {
					t.Fatalf("at %d: %s has %d and is hot with %v", now, key, n, hot[key])
				}
			}
		})
	})
}

func TestCountMin_NeverCountsTooLow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		requests := stream(t)
		m := NewCountMin(Config{Hot: 3, Budget: rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "budget")})
		eachTick(m, requests, func(now int64, hot map[string]float64) {
			for key, n := range countsIn(requests, ((now-1)/second-slots+1)*second, now) {
				if m.Sum(key) < n || n >= 3 && hot[key] < float64(n) || m.mask > 1000 && m.Sum(key) != n {
					t.Fatalf("at %d: %s has %d, want %d", now, key, m.Sum(key), n)
				}
			}
		})
	})
}

func TestSampled_CountsItsShare(t *testing.T) {
	t.Parallel()
	const n = 100_000
	var requests []Request
	for i := range n {
		requests = append(requests, Request{int64(i) * 2 * Window / n, item(i % 4)})
	}
	s := NewSampled(Config{Hot: 1, Budget: 100_000, Peak: n / 4, Seed: 7})
	if s.ratio != 25 {
		t.Fatalf("one in %d", s.ratio)
	}
	eachTick(s, requests, func(now int64, hot map[string]float64) {
		if now != Window {
			return
		}
		for k := range 4 { // each has n/8 requests
			if d := math.Abs(hot[item(k)] - n/8); d > 5*math.Sqrt(n/8*25) {
				t.Errorf("%s has %v, want about %d", item(k), hot[item(k)], n/8)
			}
		}
	})
}

// With its window over and no request counted, an answer is of the window before; two windows later it is empty.
func TestSampled_ForgetsEndedWindows(t *testing.T) {
	t.Parallel()
	s := NewSampled(Config{Hot: 2, Budget: 1 << 20, Peak: 1})
	s.Add([]Request{{1, "a"}, {2, "a"}, {3, "b"}})
	for now, want := range map[int64]int{100: 1, Window + 100: 1, 2*Window + 100: 0} {
		c := NewSampled(Config{Hot: 2, Budget: 1 << 20, Peak: 1})
		c.Add([]Request{{1, "a"}, {2, "a"}, {3, "b"}})
		if got := c.Hot(now, nil); len(got) != want {
			t.Errorf("at %d: %v", now, got)
		}
	}
}

// If a cell has no rival, its counts of a steady key are wrong by a few percent at most, and right on average.
func TestMicroscope_CountsAKeyWithoutBias(t *testing.T) {
	t.Parallel()
	sum, n := 0.0, 0
	for seed := range uint64(40) {
		m := newMicroscope(Config{Hot: 1, Seed: seed}, 1, Window)
		perTick := 1 + int(seed)*17
		truth := float64(perTick * Window / Tick)
		var requests []Request
		for now := int64(0); now < 4*Window; now += Tick {
			for i := range perTick {
				requests = append(requests, Request{now + int64(i*Tick/perTick), "a"})
			}
		}
		eachTick(m, requests, func(now int64, hot map[string]float64) {
			if now < 2*Window {
				return
			}
			off := (hot["a"] - truth) / truth
			if sum, n = sum+off, n+1; math.Abs(off) > 0.05 {
				t.Errorf("seed %d at %d: %v, want %v", seed, now, hot["a"], truth)
			}
		})
	}
	if mean := sum / float64(n); math.Abs(mean) > 0.002 {
		t.Errorf("the mean error of %d counts is %.4f", n, mean)
	}
}

// The unit shrinks again when a key becomes rare, so that each of its last requests counts.
func TestMicroscope_ZoomsInAgain(t *testing.T) {
	t.Parallel()
	m := newMicroscope(Config{Hot: 1}, 1, Window)
	for i := range 100_000 {
		m.add(float64(i)/100, "a")
	}
	c := &m.buckets[0][guardians-1]
	if c.zoom < 6 {
		t.Fatalf("a unit of 2^%d for 8333 requests in a part", c.zoom)
	}
	for at := int64(1000); at < 4*Window; at += 1000 {
		m.add(float64(at), "a")
	}
	hot := m.Hot(4*Window, nil)
	if c.zoom > 0 || len(hot) != 1 || math.Abs(hot[0].N-5) > 1 {
		t.Errorf("a unit of 2^%d, %v", c.zoom, hot)
	}
}

// The paper's figures for MicroscopeSketch on HeavyGuardian: a window of a million requests, the top 500, 320 KB, of
// which a cell with its key takes 32 bytes: recall about 97 %, and mean relative errors of about 1 to 4 %. Its traffic
// is not public; this is Zipf with exponent 1 over a million keys.
func TestMicroscope_HasTheFiguresOfItsPaper(t *testing.T) {
	t.Parallel()
	const window, keys, top = 1_000_000, 1_000_000, 500
	sums := make([]float64, keys)
	for i, sum := 0, 0.0; i < keys; i++ {
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	r := rand.New(rand.NewPCG(1, 1))
	m := newMicroscope(Config{Hot: 1, Seed: 1}, 320_000/32/guardians, window)
	counts := make([]int, keys)
	for i := range 5 * window / 2 {
		k, _ := slices.BinarySearch(sums, r.Float64()*sums[keys-1])
		m.add(float64(i), item(k))
		if i >= 3*window/2 {
			counts[k]++
		}
	}
	found := m.Hot(5*window/2, nil)
	slices.SortFunc(found, func(a, b Count) int { return int(b.N - a.N) })
	least := slices.Sorted(slices.Values(counts))[keys-top]
	right, off := 0, 0.0
	for _, c := range found[:top] {
		k, _ := strconv.Atoi(c.Key[len("item?id="):])
		off += math.Abs(c.N-float64(counts[k])) / float64(max(counts[k], 1)) / top
		if counts[k] >= least {
			right++
		}
	}
	if recall := float64(right) / top; recall < 0.95 || off > 0.04 {
		t.Errorf("recall %.3f, mean relative error %.4f", recall, off)
	}
}

// A budget is kept when each counter has all that it can hold. Small tables and lists may take 160 KB more, of which
// the detector needs most for its cold filter.
func TestContenders_KeepTheirBudgets(t *testing.T) { //nolint:paralleltest // measures the heap
	var requests []Request
	for i := range 400_000 {
		requests = append(requests, Request{int64(i) / 50, item(i % 100_000)})
	}
	for _, contender := range Contenders() {
		for _, budget := range []int{1 << 16, 1 << 18, 1 << 20} {
			before := heap()
			c := contender.New(Config{Hot: 500, Budget: budget, Peak: 255_000, Seed: 1})
			eachTick(c, requests, func(int64, map[string]float64) {})
			took := heap() - before
			if !contender.Unbounded && took > budget*4/3+160_000 {
				t.Errorf("%s took %d bytes of %d", contender.Name, took, budget)
			}
			runtime.KeepAlive(c)
		}
	}
	runtime.KeepAlive(requests)
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
