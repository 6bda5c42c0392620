package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/hotparam/pipeline/bench/internal/chart"
)

// The show is a flood of four capacities from 4,000 addresses, with quiet seconds before and after it.
const showSeconds, showBegins, showEnds = 60, 10, 50

// showCells returns the two cells of the show: an adaptive limit without priority, and with it.
func showCells() []cell {
	var list []cell
	for _, v := range []variant{adaptOneKey, adapt} {
		c := before(v, 1, 4, 4_000)
		c.seconds, c.flood, c.ends = showSeconds, showBegins, showEnds
		list = append(list, c)
	}
	return list
}

// show plays both cells at the same time with real programs, prints them, and draws them into a file.
func show(ctx context.Context, file string) error {
	bin, err := os.MkdirTemp("", "hotparam-flood-bin-")
	if err != nil {
		return fmt.Errorf("flood: %w", err)
	}
	defer os.RemoveAll(bin)
	if err := build(ctx, bin, "serve"); err != nil {
		return err
	}
	l := newLive()
	list := showCells()
	var crowds []*crowd
	for i := range list {
		one := programCell{start: (*programs).startServe, cell: list[i]}
		w, stop, err := one.open(ctx, l, bin)
		if err != nil {
			return err
		}
		defer stop()
		crowds = append(crowds, w)
	}
	printShowHeads(&list[0])
	l.every(showLine, showLine+showLag, func() { printShow(int((l.now-showLag)/time.Second), crowds) })
	if err := l.run(ctx, seconds(showSeconds)+showLag+1); err != nil {
		return err
	}
	if err := picture(crowds).Write(file); err != nil {
		return err
	}
	fmt.Printf("The picture: %s\n", file)
	return nil
}

func printShowHeads(c *cell) {
	fmt.Printf("A site answers %.0f requests a second. From %d s to %d s a crawler with %d addresses asks for %.0f.\n",
		capacity, c.flood, c.ends, c.addresses, float64(c.times)*capacity)
	fmt.Printf("%36s%32s\n%6s", "without priority, answered", "with priority, answered", "time")
	for range 2 {
		fmt.Printf("%10s%10s%10s  ", "members", "readers", "crawler")
	}
	fmt.Println()
}

// The show prints a line about the last showLine, after showLag, when most replies have come.
const showLine, showLag = 5 * time.Second, time.Second

func printShow(second int, crowds []*crowd) {
	fmt.Printf("%4d s", second)
	for _, w := range crowds {
		for _, t := range []*tally{w.members, w.readers, w.crawler} {
			sum := t.between(second-int(showLine/time.Second), second)
			if sum.Asked == 0 {
				fmt.Printf("%10s", "-")
				continue
			}
			fmt.Printf("%8.0f %%", sum.percent())
		}
		fmt.Print("  ")
	}
	fmt.Println()
}

// picture draws the answered shares of the groups of clients over time.
func picture(crowds []*crowd) chart.Drawing {
	titles := []string{"Answered without priority, percent", "Answered with priority: [member, visitor], percent"}
	var d chart.Drawing
	for i, w := range crowds {
		d = append(d, chart.Plot{Title: titles[i], Most: 100, Lines: []chart.Line{
			{Name: "members", Values: w.members.shares()},
			{Name: "the crawler", Values: w.crawler.shares()},
			{Name: "returning readers", Values: w.readers.shares()},
			{Name: "new readers", Values: w.strangers.shares()},
		}})
	}
	return d
}

// shares returns the share of answered requests of each second and the two before it, in percent, or NaN without any
// requests.
func (t *tally) shares() []float64 {
	list := make([]float64, len(t.course))
	for i := range list {
		sum := t.between(max(0, i-2), i+1)
		if list[i] = sum.percent(); sum.Asked == 0 {
			list[i] = math.NaN()
		}
	}
	return list
}

// drawShow draws the show as simulated.
func drawShow(file string, seed uint64) error {
	var crowds []*crowd
	for _, c := range showCells() {
		w, err := simulate(&c, seed)
		if err != nil {
			return err
		}
		crowds = append(crowds, w)
	}
	return picture(crowds).Write(file)
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)) }
