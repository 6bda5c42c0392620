package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// options holds the flags.
type options struct {
	trials  int
	quiet   int
	topics  int
	windows string
	only    string
	json    string
	server  string
}

func main() {
	var o options
	flag.IntVar(&o.trials, "trials", 200, "trials of each way and window")
	flag.IntVar(&o.quiet, "quiet", 500, "requests a second for topics that are not viral")
	flag.IntVar(&o.topics, "topics", 1000, "topics that share them")
	flag.StringVar(&o.windows, "windows", "2s,5s", "windows of the rule, apart by commas; 5s is the default of a rule")
	flag.StringVar(&o.only, "only", "", "names of some ways, apart by commas; empty: all")
	flag.StringVar(&o.json, "json", "", "also write every trial to this file")
	flag.StringVar(&o.server, "server", "redis-server", "the server to start")
	alone := flag.Bool("idle", false, "be the idle program beside the trials (the program starts itself with this)")
	report := measure.NewReport("latency", "redis-server")
	report.Seed = "none: trials begin at random times"
	flag.Parse()
	if *alone {
		if err := idle(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "latency: idle:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, report, o); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

// run measures each way with each window and writes the tables.
func run(ctx context.Context, report *measure.Report, o options) error {
	if o.trials < 1 || o.quiet < 1 || o.topics < 1 || o.quiet/o.topics >= rate/2 {
		return fmt.Errorf("-trials %d -quiet %d -topics %d: want at least 1 of each, and quiet topics under %d/s each",
			o.trials, o.quiet, o.topics, rate/2)
	}
	windows, err := parseWindows(o.windows)
	if err != nil {
		return err
	}
	world, err := openWorld(ctx, o.server)
	if err != nil {
		return err
	}
	defer world.close()
	var all []outcome
	for _, window := range windows {
		for _, w := range ways() {
			if o.only != "" && !contains(o.only, w.name) {
				continue
			}
			fmt.Fprintf(os.Stderr, "latency: %s, window %v (load %s)\n", w.name, window, loadAverage())
			got, err := measureWay(ctx, world, w, window, o)
			if err != nil {
				return fmt.Errorf("%s, window %v: %w", w.name, window, err)
			}
			all = append(all, got)
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("-only %q: no such way", o.only)
	}
	if o.json != "" {
		if err := writeJSON(o.json, all); err != nil {
			return err
		}
	}
	return errors.Join(report.Write(totals(all)), write(os.Stdout, all), complaints(all))
}

func parseWindows(list string) (out []time.Duration, err error) {
	for text := range strings.SplitSeq(list, ",") {
		d, err := time.ParseDuration(text)
		if err != nil || d < 2*time.Second || d%time.Second != 0 {
			// Under 2 s the beginning of a topic could leave the window before the topic has reached the threshold.
			return nil, fmt.Errorf("-windows %q: want whole seconds, from 2s on", text)
		}
		out = append(out, d)
	}
	return out, nil
}

func contains(list, name string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one == name {
			return true
		}
	}
	return false
}

// loadAverage returns the load of the last minute, or "?" if it is unknown.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
