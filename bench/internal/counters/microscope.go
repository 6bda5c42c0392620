package counters

import (
	"math"
	"math/rand/v2"
)

// The parameters of the paper for its best top-k counter: subWindows (T) and 8 bits for each of the T+2 pixels.
const (
	subWindows = 12
	pixels     = subWindows + 2
	guardians  = 8    // cells of a bucket
	decayBase  = 1.08 // of HeavyGuardian
)

// Microscope is MicroscopeSketch on HeavyGuardian (Wu et al., "MicroscopeSketch: Accurate Sliding Estimation Using
// Adaptive Zooming", KDD 2023; Yang et al., "HeavyGuardian", KDD 2018). A key has a cell in one bucket. If the bucket
// is full, a new key takes one count from its weakest cell with probability 1.08^-n, and the cell at 0.
//
// A cell has a pixel for each part of the window, of a unit of 2^zoom requests. The shutter counts the requests that do
// not yet make a unit. When a pixel would overflow, all are halved and the unit is doubled (odd pixels are rounded up
// or down by chance, so that no error is expected); when all are small at the end of a part, the reverse. The count is
// the sum of the pixels, of the oldest by the part of it that is still in the window.
type Microscope struct {
	buckets [][guardians]microscope
	length  float64 // of a part, in milliseconds
	hot     float64
	seed    uint64
	random  *rand.Rand
}

type microscope struct {
	key     string
	shutter uint32
	part    int32 // the last part that was begun
	zoom    uint8
	pixels  [pixels]uint8
}

// NewMicroscope returns a sketch with as many buckets as the budget allows.
func NewMicroscope(c Config) *Microscope {
	const bytesCell = 40
	return newMicroscope(c, max(c.Budget/bytesCell/guardians, 1), Window)
}

func newMicroscope(c Config, buckets int, window float64) *Microscope {
	return &Microscope{buckets: make([][guardians]microscope, buckets), length: window / subWindows,
		hot: float64(c.Hot), seed: mix(c.Seed), random: rand.New(rand.NewPCG(c.Seed, 1))}
}

// Add adds the requests.
func (m *Microscope) Add(requests []Request) {
	for i := range requests {
		m.add(float64(requests[i].At), requests[i].Key)
	}
}

func (m *Microscope) add(at float64, key string) {
	bucket := &m.buckets[hash(key, m.seed)%uint64(len(m.buckets))]
	part := int32(at / m.length)
	var empty *microscope
	for i := range bucket {
		switch c := &bucket[i]; {
		case c.key == key:
			c.advance(part)
			c.add(m.random)
			return
		case c.key == "":
			empty = c
		}
	}
	if empty == nil {
		empty = m.weaken(bucket, at)
	}
	if empty != nil {
		*empty = microscope{key: key, part: part}
		empty.add(m.random)
	}
}

// weaken takes a count from the weakest cell of a bucket, by chance, and returns the cell if nothing is left.
func (m *Microscope) weaken(bucket *[guardians]microscope, at float64) *microscope {
	var weakest *microscope
	least := math.Inf(1)
	for i := range bucket {
		bucket[i].advance(int32(at / m.length))
		if n := bucket[i].count(at / m.length); n < least {
			weakest, least = &bucket[i], n
		}
	}
	if least >= 1 {
		if m.random.Float64() >= math.Pow(decayBase, -least) {
			return nil
		}
		weakest.remove()
	}
	if weakest.count(at/m.length) >= 1 {
		return nil
	}
	return weakest
}

// advance begins the parts up to the present one.
func (c *microscope) advance(part int32) {
	if part-c.part > pixels {
		*c = microscope{key: c.key, part: part}
	}
	for c.part < part {
		c.part++
		c.pixels[c.part%pixels] = 0
		c.zoomIn()
	}
}

// add counts one request in the present part.
func (c *microscope) add(r *rand.Rand) {
	if c.shutter++; c.shutter < 1<<c.zoom {
		return
	}
	c.shutter = 0
	pixel := &c.pixels[c.part%pixels]
	if *pixel < math.MaxUint8 {
		*pixel++
		return
	}
	c.zoomOut(r)
	*pixel = (math.MaxUint8 + 1) / 2
}

// zoomOut doubles the unit. An odd pixel is rounded up or down by chance.
func (c *microscope) zoomOut(r *rand.Rand) {
	c.zoom++
	chance := r.Uint32()
	for i := range c.pixels {
		c.pixels[i] = c.pixels[i]/2 + c.pixels[i]&uint8(chance>>i)&1
	}
}

// zoomIn halves the unit if all pixels have room.
func (c *microscope) zoomIn() {
	if c.zoom == 0 {
		return
	}
	for _, p := range c.pixels {
		if p > math.MaxUint8/2 {
			return
		}
	}
	c.zoom--
	for i := range c.pixels {
		c.pixels[i] *= 2
	}
	if c.shutter >= 1<<c.zoom {
		c.shutter -= 1 << c.zoom
		c.pixels[c.part%pixels]++
	}
}

// remove takes one request back, from the latest part that has any.
func (c *microscope) remove() {
	if c.shutter > 0 {
		c.shutter--
		return
	}
	for i := range int32(pixels) {
		if at := c.part - i; at >= 0 && c.pixels[at%pixels] > 0 {
			c.pixels[at%pixels]--
			c.shutter = 1<<c.zoom - 1
			return
		}
	}
}

// count returns the count over the window that ends at now, in parts since the beginning.
func (c *microscope) count(now float64) float64 {
	units := 0.0
	for i := range int32(subWindows) {
		if c.part-i < 0 {
			break
		}
		units += float64(c.pixels[(c.part-i)%pixels])
	}
	if oldest := c.part - subWindows; oldest >= 0 {
		units += max(0, 1-(now-float64(c.part))) * float64(c.pixels[oldest%pixels])
	}
	return float64(c.shutter) + units*float64(uint64(1)<<c.zoom)
}

// Hot returns the keys with the threshold.
func (m *Microscope) Hot(now int64, to []Count) []Count {
	at := float64(now) / m.length
	for b := range m.buckets {
		for i := range m.buckets[b] {
			c := &m.buckets[b][i]
			if c.key == "" {
				continue
			}
			c.advance(int32(float64(now-1) / m.length))
			if n := c.count(at); n >= m.hot {
				to = append(to, Count{c.key, n})
			}
		}
	}
	return to
}
