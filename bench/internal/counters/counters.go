// Package counters holds the contenders of bench/hot: ways to count the requests of keys over a trailing window, each
// within a budget of memory. All are told the same requests in the same order, and all are asked ten times a second
// which keys are hot.
//
//   - Hotparam is the detector of this project.
//   - HeavyKeeper is the sliding sketch of github.com/keilerkonzept/topk.
//   - SpaceSaving has a summary for each second (Metwally et al., 2005).
//   - WCSS is the Window Compact Space Saving of Ben Basat et al. (2016).
//   - Microscope is MicroscopeSketch on HeavyGuardian (Wu et al., 2023).
//   - CountMin has a count-min sketch for each second (Cormode and Muthukrishnan, 2005), with public hash
//     functions.
//   - Sampled counts a share of the requests, in windows that end.
//   - Exact keeps every request.
//
// SpaceSaving, WCSS, Microscope, CountMin and Sampled are written here from their papers. The keys of a trace stay in
// memory, so a counter may refer to them; Hotparam copies its keys.
package counters

// The window and the tick of the judge, in milliseconds.
const (
	Window = 5000
	Tick   = 100
)

// second is the length of the slots of counters that divide a window into seconds.
const second = 1000

// slots is the number of seconds of a window.
const slots = Window / second

// Request is a request for a key at a time, in milliseconds.
type Request struct {
	At  int64
	Key string
}

// Count is a key with its count over the window.
type Count struct {
	Key string
	N   float64
}

// Counter counts requests over the trailing window. A Counter is not for concurrent use.
type Counter interface {
	// Add adds the requests of one tick, in order. Time never steps back.
	Add([]Request)
	// Hot appends the keys that have the threshold at a time, with their counts. The requests before now were added.
	Hot(now int64, to []Count) []Count
}

// Config describes the task of a counter.
type Config struct {
	Hot    int // the threshold: the requests within the window that make a key hot
	Budget int // bytes that the counter may take
	// Peak is the maximum number of requests within a window and a tick. Only WCSS and Sampled need to know it.
	Peak int
	Seed uint64 // of the counters that use chance
}

// Contender is a way to count.
type Contender struct {
	Name string
	New  func(Config) Counter
	// Unbounded is true if the counter ignores its budget.
	Unbounded bool
}

// Contenders returns all contenders, hotparam first.
func Contenders() []Contender {
	return []Contender{
		{Name: "hotparam", New: func(c Config) Counter { return NewHotparam(c) }},
		{Name: "HeavyKeeper", New: func(c Config) Counter { return NewHeavyKeeper(c) }},
		{Name: "Space-Saving", New: func(c Config) Counter { return NewSpaceSaving(c) }},
		{Name: "WCSS", New: func(c Config) Counter { return NewWCSS(c) }},
		{Name: "MicroscopeSketch", New: func(c Config) Counter { return NewMicroscope(c) }},
		{Name: "count-min", New: func(c Config) Counter { return NewCountMin(c) }},
		{Name: "sampled", New: func(c Config) Counter { return NewSampled(c) }},
		{Name: "exact", New: func(c Config) Counter { return NewExact(c) }, Unbounded: true},
	}
}

// hash scatters the bytes of a key (FNV-1a, and the finaliser of splitmix64). Whoever knows the seed can aim at cells.
func hash(key string, seed uint64) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return mix(h + seed)
}

// mix scatters numbers (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
