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
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// The names of the peers.
const (
	exporterName = "statsd_exporter v0.31.0"
	nodeName     = "statsd 0.9.0 (Node.js)"
)

func main() {
	rounds := flag.Int("rounds", 1, "rounds; every contender runs once in each")
	length := flag.Duration("for", 10*time.Second, "how long one load lasts")
	exporter := flag.String("exporter", "statsd_exporter", "the statsd_exporter to compare with")
	node := flag.String("statsd", "../bin/_peers/node_modules/statsd",
		"the folder of the Node.js statsd to compare with")
	address := flag.String("listen", "", "be the receiver (the program starts itself with this)")
	spin := flag.Bool("spin", false, "keep a core busy (the program starts itself with this)")
	report := measure.NewReport("udp", "node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := func() error { return compare(ctx, report, *rounds, *length, peers(ctx, *exporter, *node)) }
	switch {
	case *address != "":
		run = func() error { return listen(ctx, *address) }
	case *spin:
		run = func() error { return work(ctx) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "udp:", err)
		os.Exit(1)
	}
}

func loads() []load {
	return []load{
		{name: "full packets of 30 lines, 100 k/s", full: true, pace: 100_000},
		{name: "full packets of 30 lines, one core sends all it can", full: true},
		{name: "single lines, 150 k/s", pace: 150_000},
		{name: "single lines, one core sends all it can"},
		{name: "single lines, 50 k/s, both cores busy", pace: 50_000, busy: true},
	}
}

// contender is a receiver that can be started.
type contender struct {
	name  string
	start func() (*receiver, error)
}

// peers returns ours and the peers that are installed.
func peers(ctx context.Context, exporter, node string) []contender {
	all := []contender{{measure.Ours, func() (*receiver, error) { return startOurs(ctx) }}}
	if path, err := exec.LookPath(exporter); err != nil {
		fmt.Fprintf(os.Stderr, "udp: without %s: %v\n", exporterName, err)
	} else {
		all = append(all, contender{exporterName, func() (*receiver, error) { return startExporter(ctx, path) }})
	}
	if _, err := os.Stat(filepath.Join(node, "stats.js")); err != nil {
		fmt.Fprintf(os.Stderr, "udp: without %s: %v\n", nodeName, err)
	} else {
		all = append(all, contender{nodeName, func() (*receiver, error) { return startNode(ctx, node) }})
	}
	return all
}

func compare(ctx context.Context, report *measure.Report, rounds int, d time.Duration, who []contender) error {
	sheet := measure.NewSheet(measure.Higher, "M lines per CPU second of the receiver", "sent, M lines/s",
		"sent, k packets/s",
		"counted, M lines/s", "lost, %", "kernel drops, k packets", "receiver's cores")
	var cases []func() error
	for _, l := range loads() {
		q := question{sheet, l, d}
		for _, c := range who {
			cases = append(cases, func() error { return q.ask(ctx, c) })
		}
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return report.Write(sheet)
}

// question is one row of the table.
type question struct {
	sheet *measure.Sheet
	load  load
	d     time.Duration
}

// ask starts a receiver, sends, waits until it has read everything that the kernel holds, and reads its counts.
func (q question) ask(ctx context.Context, c contender) error {
	r, err := c.start()
	if err != nil {
		return err
	}
	defer r.close()
	s, err := q.send(ctx, r.port)
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
	q.sheet.Add(q.load.name, c.name, n/cpu.Seconds()/1e6, float64(s.lines)/seconds/1e6, float64(s.packets)/seconds/1e3,
		n/seconds/1e6, 100*(1-n/float64(s.lines)), float64(drops)/1e3, cpu.Seconds()/seconds)
	return nil
}

// send sends the load, beside processes that keep the cores busy if the load is busy.
func (q question) send(ctx context.Context, port int) (sent, error) {
	if q.load.busy {
		self, err := os.Executable()
		if err != nil {
			return sent{}, err
		}
		for range runtime.NumCPU() {
			p, err := process.Start(ctx, nil, self, "-spin")
			if err != nil {
				return sent{}, err
			}
			defer p.Stop()
		}
	}
	return q.load.send(port, q.d)
}

// work keeps one core busy until ctx ends.
func work(ctx context.Context) error {
	for ctx.Err() == nil {
	}
	return nil
}

// drained waits until the receiver has read everything, and returns the number of dropped datagrams.
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

// listen receives until standard input ends. It writes its counters when it is ready and when it is done.
func listen(ctx context.Context, address string) error {
	set, err := rules.Parse("bench.yaml", []byte(topicRule))
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	agg := aggregate.New(aggregate.Config{Rules: set, Log: log})
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{address}, Names: canon.Names{Prefix: "hp.news"}, Log: log,
		Handle: func(counts []hottype.Count) { _ = agg.Send(ctx, counts) }, // fails only when ctx ends
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
