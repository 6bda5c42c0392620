package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/aggregate"
	"github.com/hotparam/pipeline/hotparam/canon"
	"github.com/hotparam/pipeline/hotparam/rules"
	"github.com/hotparam/pipeline/hotparam/statsd"
)

const peer = "statsd_exporter v0.31.0"

func main() {
	rounds := flag.Int("rounds", 5, "rounds; every contender runs once in each")
	length := flag.Duration("for", 1500*time.Millisecond, "how long one load lasts")
	exporter := flag.String("exporter", "statsd_exporter", "the program to compare with")
	address := flag.String("listen", "", "be the receiver (the program starts itself with this)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := func() error { return compare(ctx, *rounds, *length, *exporter) }
	if *address != "" {
		run = func() error { return listen(ctx, *address) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "udp:", err)
		os.Exit(1)
	}
}

func loads() []load {
	return []load{
		{"full packets of 30 lines, 100 k/s", true, 100_000},
		{"full packets of 30 lines, one core sends all it can", true, 0},
		{"single lines, 150 k/s", false, 150_000},
		{"single lines, one core sends all it can", false, 0},
	}
}

func compare(ctx context.Context, rounds int, d time.Duration, exporter string) error {
	path, err := exec.LookPath(exporter)
	if err != nil {
		fmt.Fprintf(os.Stderr, "udp: %v: hotparam is measured alone\n", err)
	}
	sheet := measure.NewSheet(measure.Higher, "M lines per CPU second of the receiver", "sent, M lines/s", "sent, k packets/s",
		"counted, M lines/s", "lost, %", "kernel drops, k packets", "receiver's cores")
	var cases []func() error
	for _, l := range loads() {
		q := question{sheet, l, d}
		ask := func(who string, start func() (*receiver, error)) {
			cases = append(cases, func() error { return q.ask(who, start) })
		}
		ask(measure.Ours, func() (*receiver, error) { return startOurs(ctx) })
		if path != "" {
			ask(peer, func() (*receiver, error) { return startExporter(ctx, path) })
		}
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return sheet.Write(os.Stdout)
}

// question is one row of the table.
type question struct {
	sheet *measure.Sheet
	load  load
	d     time.Duration
}

// ask starts a receiver, sends, waits until it has read what the kernel holds,
// and asks what it has counted.
func (q question) ask(who string, start func() (*receiver, error)) error {
	r, err := start()
	if err != nil {
		return err
	}
	defer r.p.Stop()
	s, err := q.load.send(r.port, q.d)
	if err != nil {
		return err
	}
	drops, err := drained(r.port)
	if err != nil {
		return err
	}
	cpu, err := r.p.CPU()
	if err != nil {
		return err
	}
	counted, err := r.stop()
	if err != nil {
		return err
	}
	n, seconds := float64(counted), s.took.Seconds()
	q.sheet.Add(q.load.name, who, n/cpu.Seconds()/1e6, float64(s.lines)/seconds/1e6, float64(s.packets)/seconds/1e3,
		n/seconds/1e6, 100*(1-n/float64(s.lines)), float64(drops)/1e3, cpu.Seconds()/seconds)
	return nil
}

// drained waits until the receiver has read all, and tells what was dropped.
func drained(port int) (drops uint64, _ error) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		s, err := kernel(port)
		if err != nil || s.waiting == 0 {
			return s.drops, err
		}
	}
	return 0, fmt.Errorf("udp: port %d is not read any more", port)
}

const topicRule = `
rules:
  - {name: topic, match: {path: /topic}, params: [id, lang], hot: {rate: 1000, window: 5s}}
`

// listen receives until standard input ends. It writes its counters when it is
// ready and when it is done.
func listen(ctx context.Context, address string) error {
	set, err := rules.Parse("bench.yaml", []byte(topicRule))
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	agg := aggregate.New(aggregate.Config{Rules: set, Log: log})
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Address: address, Names: canon.Names{Prefix: "hp.news"}, Log: log,
		Handle: func(counts []hotparam.Count) { _ = agg.Send(ctx, counts) }, // fails only when ctx ends
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running errgroup.Group
	running.Go(func() error { return agg.Run(ctx) })
	running.Go(func() error { return l.Run(ctx) })
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(l.Stats()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	cancel()
	if err := running.Wait(); err != nil {
		return err
	}
	return out.Encode(l.Stats())
}
