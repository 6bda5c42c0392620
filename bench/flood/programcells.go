package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

// programCell is a cell with real programs over HTTP.
type programCell struct {
	name     string
	programs string
	start    func(*programs, context.Context) ([]string, error)
	cell
}

// The lengths of cells with real programs. They are judged later than simulated cells, because programs take time to
// start.
const (
	programSeconds = 60
	programSettled = 15
)

// programCells returns the named cells.
func programCells() []programCell {
	quick := func(c cell) cell {
		c.seconds, c.settled = programSeconds, programSettled
		c.flood, c.starts = min(c.flood, 10), min(c.starts, 10)
		return c
	}
	const serve, sidecars = "serve", "2 sidecars, aggregator, Redis"
	return []programCell{
		{"serve-fixed", serve, (*programs).startServe, quick(before(fixed, 1, 4, 4_000))},
		{"serve-adaptive", serve, (*programs).startServe, quick(before(adapt, 1, 10, 4_000))},
		{"serve-adaptive-during", serve, (*programs).startServe, quick(during(adapt, 1, 4, 40_000))},
		{"sidecars-fixed-during", sidecars, (*programs).startSidecars, quick(during(fixed, 2, 10, 4_000))},
		{"sidecars-adaptive", sidecars, (*programs).startSidecars, quick(before(adapt, 2, 4, 40_000))},
		{"nginx-fixed", "nginx asks serve", (*programs).startNginx, quick(before(fixed, 1, 4, 4_000))},
	}
}

// play plays a cell in real time.
func (c *programCell) play(ctx context.Context, bin string) (*crowd, error) {
	l := newLive()
	w, stop, err := c.open(ctx, l, bin)
	if err != nil {
		return nil, err
	}
	defer stop()
	return w, l.run(ctx, seconds(c.seconds))
}

// open starts the upstream and the programs, or plans their start, and plans the requests of the clients. stop stops
// everything.
func (c *programCell) open(ctx context.Context, l *live, bin string) (w *crowd, stop func(), err error) {
	server, upstream, err := listenUpstream()
	if err != nil {
		return nil, nil, err
	}
	p, err := newPrograms(bin, c.variant.file(), upstream)
	if err != nil {
		return nil, nil, errors.Join(err, server.Close())
	}
	stop = func() {
		p.Stop()
		_ = server.Close() // all clients have ended
	}
	w = newCrowd(&c.cell, l.clock, newRandom())
	servers := []string{upstream}
	w.send = func(one *client, done func(reply)) { l.send(servers[w.random.IntN(len(servers))], one, w.random, done) }
	if c.starts > 0 {
		l.after(seconds(c.starts), func() {
			var urls []string
			l.await(func() (r reply) { urls, l.fault = c.start(p, ctx); return r }, func(reply) { servers = urls })
		})
	} else if servers, err = c.start(p, ctx); err != nil {
		stop()
		return nil, nil, err
	}
	w.plan(p.passes(), time.Now())
	return w, stop, nil
}

// passes returns Passes with the secrets of the programs.
func (p *programs) passes() *visitorpass.Passes {
	passes := visitorpass.New("default")
	for _, day := range secretDays() {
		passes.SetSecret(day, p.secret)
	}
	return passes
}

// playPrograms plays the cells with real programs, one after another, and writes their rows.
func playPrograms(ctx context.Context, dir, only string) error {
	r, err := readResults(dir)
	if err != nil {
		return err
	}
	bin, err := os.MkdirTemp("", "hotparam-flood-bin-")
	if err != nil {
		return fmt.Errorf("flood: %w", err)
	}
	defer os.RemoveAll(bin)
	if err := build(ctx, bin, "serve", "aggregator", "limiter-sidecar"); err != nil {
		return err
	}
	s := newStudy("go run ./flood -programs", 0)
	for _, c := range programCells() {
		if only != "" && c.name != only {
			continue
		}
		w, err := c.play(ctx, bin)
		if err != nil {
			return fmt.Errorf("flood: %s: %w", c.name, err)
		}
		row := w.result(w.judged(), w.seconds)
		row.Cell, row.Processes = c.name, c.programs
		fmt.Fprintf(os.Stderr, "%s: %+v\n", c.name, row)
		s.Rows = append(s.Rows, row)
	}
	if only != "" {
		return nil
	}
	s.Load += " to " + measure.Load()
	r.Programs = s
	return r.write(dir)
}
