package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/internal/testing/simulation"
)

const fairnessFile = "fairness.svg"

// fairness draws which clients are admitted while one client sends five times the limit: with the bucket alone, and
// divided fairly.
func fairness() []byte {
	var b bytes.Buffer
	begin(&b, fmt.Sprintf("%d clients at %d/s each, and one at %d/s from second %d to %d, on a limit of %d/s",
		simulation.CourseReaders, simulation.CourseEach, simulation.CourseFlood, simulation.CourseFrom,
		simulation.CourseUntil, simulation.CourseLimit))
	for i, name := range []string{"a bucket alone", "fair: true"} {
		course := simulation.Course(i == 1)
		p := panel{&b, left(i), simulation.CourseEnds * time.Second, 140}
		light, heavy := 0, 0
		for _, s := range course[simulation.CourseFrom:simulation.CourseUntil] {
			light, heavy = light+s.Light, heavy+s.Heavy
		}
		const seconds = simulation.CourseUntil - simulation.CourseFrom
		fmt.Fprintf(p, `<text class="small" x="%.0f" y="46">%s: meanwhile %d/s and %d/s</text>`+"\n", p.left, name,
			(light+seconds/2)/seconds, (heavy+seconds/2)/seconds)
		p.axes(20, 10*time.Second)
		fmt.Fprintf(p, `<path class="edge" d="M%.1f %.1fh%d"/>`+"\n", p.left, p.y(simulation.CourseLimit), plotWidth)
		p.seconds("let", course, func(s simulation.Second) int { return s.Light })
		p.seconds("bound", course, func(s simulation.Second) int { return s.Heavy })
	}
	fmt.Fprintf(&b, `<text class="b" x="44" y="%d">— let in a second of the %d</text>`+"\n", height-14,
		simulation.CourseReaders)
	fmt.Fprintf(&b, `<text class="r" x="230" y="%d">- - of the one</text></svg>`+"\n", height-14)
	return b.Bytes()
}

// seconds draws a staircase with one step for each second.
func (p panel) seconds(class string, course []simulation.Second, of func(simulation.Second) int) {
	fmt.Fprintf(p, `<path class="%s" d="M%.1f %.1f`, class, p.left, p.y(float64(of(course[0]))))
	for i, s := range course {
		fmt.Fprintf(p, "V%.1fH%.1f", p.y(float64(of(s))), p.x(time.Duration(i+1)*time.Second))
	}
	fmt.Fprintln(p, `"/>`)
}
