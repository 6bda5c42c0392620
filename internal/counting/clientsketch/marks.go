package clientsketch

import (
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// addMark keeps mark if it is among the smallest. In a large crowd it hardly
// ever is, and that is one comparison.
func addMark(c *hottype.Crowd, mark uint32) {
	full := len(c.Marks) == MaxMarks
	if full && mark > c.Marks[MaxMarks-1] {
		return
	}
	i, found := slices.BinarySearch(c.Marks, mark)
	if found {
		return
	}
	if full {
		c.Marks = c.Marks[:MaxMarks-1]
	}
	c.Marks = slices.Insert(c.Marks, i, mark)
}

// mergeMarks makes c's marks the smallest of the union. Both are ascending.
func mergeMarks(c *hottype.Crowd, other []uint32) {
	if len(other) == 0 {
		return
	}
	var union [MaxMarks]uint32
	n, i, j := 0, 0, 0
	for n < MaxMarks && (i < len(c.Marks) || j < len(other)) {
		switch {
		case j == len(other) || i < len(c.Marks) && c.Marks[i] < other[j]:
			union[n] = c.Marks[i]
			i++
		case i == len(c.Marks) || other[j] < c.Marks[i]:
			union[n] = other[j]
			j++
		default:
			union[n] = other[j]
			i++
			j++
		}
		n++
	}
	c.Marks = append(c.Marks[:0], union[:n]...)
}
