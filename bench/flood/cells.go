package main

import (
	"fmt"
	"time"
)

// cell is one flood against one variant of limits. Times are seconds since the beginning.
type cell struct {
	variant   variant
	limiters  int     // one process, or some sidecars
	times     int     // requests of the crawler, in capacities, or 0 without a flood
	addresses int     // of the crawler
	keeping   float64 // share of the addresses that keep cookies
	// passes is the age of returning readers' passes at the beginning, or 0 if they get their passes in the flood.
	passes time.Duration

	starts, flood int // when the product starts, and the flood
	ends          int // when the flood ends, or 0 if it does not
	seconds       int
	settled       int // the cell is judged so long after the flood or the start, whichever is later
}

// settled is the usual value of cell.settled.
const settled = 10

// judged returns the second from which the cell is judged.
func (c *cell) judged() int { return max(c.starts, c.flood) + c.settled }

// before returns a cell in which the product runs when the flood begins.
func before(v variant, limiters, times, addresses int) cell {
	return cell{variant: v, limiters: limiters, times: times, addresses: addresses, passes: 2 * time.Hour, flood: 30,
		seconds: 160, settled: settled}
}

// during returns a cell in which the product is started in the middle of the flood.
func during(v variant, limiters, times, addresses int) cell {
	c := before(v, limiters, times, addresses)
	c.starts, c.flood = c.flood, 0
	return c
}

func (c *cell) moment() string {
	if c.starts > c.flood {
		return "during"
	}
	return "before"
}

func (c *cell) processes() string {
	if c.limiters == 1 {
		return "one process"
	}
	return fmt.Sprintf("%d sidecars", c.limiters)
}

// matrix returns the cells that have to reach the goals.
func matrix() (list []cell) {
	for _, v := range withPriority {
		for _, limiters := range []int{1, 2} {
			for _, begin := range []func(variant, int, int, int) cell{before, during} {
				for _, times := range []int{4, 10} {
					for _, addresses := range []int{4_000, 40_000} {
						list = append(list, begin(v, limiters, times, addresses))
					}
				}
			}
		}
	}
	return list
}

// comparison returns cells of other limits, in a flood of four capacities from 4,000 addresses.
func comparison() (list []cell) {
	for _, v := range others {
		list = append(list, before(v, 1, 4, 4_000))
	}
	return list
}

// quiet returns cells without a flood.
func quiet() (list []cell) {
	for _, v := range withPriority {
		list = append(list, before(v, 1, 0, 0))
	}
	return list
}

// cookieHours is the length of the cells whose crawler keeps cookies, after the flood has begun.
const cookieHours = 2

// cookies returns floods of two hours by crawlers that keep cookies: against readers who get their passes in the flood,
// and against readers with older passes, for whom there is a class of their own.
func cookies() (list []cell) {
	for _, v := range []variant{fixed, adapt, fixedSeniority, adaptSeniority} {
		for _, crawler := range []struct {
			times, addresses int
			keeping          float64
		}{{4, 4_000, 0.1}, {10, 4_000, 0.1}, {4, 4_000, 1}, {10, 4_000, 1}, {10, 40_000, 1}} {
			c := before(v, 1, crawler.times, crawler.addresses)
			c.keeping, c.seconds = crawler.keeping, c.flood+cookieHours*3600
			if !v.hasSeniority() {
				c.passes = 0
			}
			list = append(list, c)
		}
	}
	return list
}
