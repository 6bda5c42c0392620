package clientsketch

import (
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// addToSample keeps mark if it is among the smallest. In a large one it hardly
// ever is, and that is one comparison.
func addToSample(c *hottype.ClientSketch, mark uint32) {
	full := len(c.Sample) == MaxSample
	if full && mark > c.Sample[MaxSample-1] {
		return
	}
	i, found := slices.BinarySearch(c.Sample, mark)
	if found {
		return
	}
	if full {
		c.Sample = c.Sample[:MaxSample-1]
	}
	c.Sample = slices.Insert(c.Sample, i, mark)
}

// mergeSamples makes c's sample hashes the smallest of the union. Both are ascending.
func mergeSamples(c *hottype.ClientSketch, other []uint32) {
	if len(other) == 0 {
		return
	}
	var union [MaxSample]uint32
	n, i, j := 0, 0, 0
	for n < MaxSample && (i < len(c.Sample) || j < len(other)) {
		switch {
		case j == len(other) || i < len(c.Sample) && c.Sample[i] < other[j]:
			union[n] = c.Sample[i]
			i++
		case i == len(c.Sample) || other[j] < c.Sample[i]:
			union[n] = other[j]
			j++
		default:
			union[n] = other[j]
			i++
			j++
		}
		n++
	}
	c.Sample = append(c.Sample[:0], union[:n]...)
}
