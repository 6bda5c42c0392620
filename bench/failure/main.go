package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

func main() {
	var o options
	flag.IntVar(&o.rate, "rate", 5000, "decisions a second, by both gates together")
	flag.DurationVar(&o.trouble, "trouble", 4*time.Second, "how long Redis fails")
	flag.StringVar(&o.server, "server", "redis-server", "the server to start")
	only := flag.String("only", "", "names of some scenarios, apart by commas; empty: all")
	report := measure.NewReport("failure", "redis-server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, report, o, *only); err != nil {
		fmt.Fprintln(os.Stderr, "failure:", err)
		os.Exit(1)
	}
}

// options holds the flags.
type options struct {
	rate    int
	trouble time.Duration
	server  string
}

// run plays the scenarios one after the other and writes their rows.
func run(ctx context.Context, report *measure.Report, o options, only string) error {
	names := strings.Split(only, ",")
	sheet := measure.NewSheet(measure.Lower, columns...)
	for _, s := range scenarios() {
		if only != "" && !slices.Contains(names, s.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "failure:", s.name)
		r, err := s.play(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		sheet.Add(s.name, measure.Ours, r.row()...)
	}
	return report.Write(sheet)
}
