package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

func main() {
	rounds := flag.Int("rounds", 3, "rounds; every sink is measured once in each")
	length := flag.Duration("for", 8*time.Second, "how long one load lasts")
	be := flag.String("be", "", "be the other side (the program starts itself with this)")
	at := flag.String("at", "", "the unix socket of the other side")
	report := measure.NewReport("sinks")
	flag.Parse()
	run := func() error { return compare(report, *rounds, *length) }
	if *be != "" {
		run = func() error { return serve(*be, *at) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sinks:", err)
		os.Exit(1)
	}
}

// sinks returns all cases. The p99 of each is compared with the p99 of the healthy case of its transport in the same
// round.
func sinks() []sink {
	return []sink{
		{what: "no counting", who: "(nothing)"},
		{"StatsD", measure.Ours + ", healthy", statsdSink, "udp"},
		{"StatsD", measure.Ours + ", slow", statsdSink, "slow datagrams"},
		{"StatsD", measure.Ours + ", frozen", statsdSink, "frozen datagrams"},
		{"StatsD", measure.Ours + ", refusing", statsdSink, refusing},
		{"StatsD", measure.Ours + ", name server hangs", statsdSink, nameless},
		{"Kafka", measure.Ours + ", healthy", kafkaSink, "broker"},
		{"Kafka", measure.Ours + ", slow", kafkaSink, "slow broker"},
		{"Kafka", measure.Ours + ", frozen after the connection", kafkaSink, "frozen broker"},
		{"Kafka", measure.Ours + ", accepts and is silent", kafkaSink, "mute"},
		{"Kafka", measure.Ours + ", refusing", kafkaSink, refusing},
		{"Kafka", measure.Ours + ", no such name", kafkaSink, nameless},
	}
}

var healthyPeer = map[string]string{"no counting": "udp", "StatsD": "udp", "Kafka": "broker"}

func compare(report *measure.Report, rounds int, d time.Duration) error {
	all := sinks()
	got := make([][]result, len(all))
	cases := make([]func() error, len(all))
	for i, s := range all {
		cases[i] = func() error {
			r, err := s.measure(d)
			got[i] = append(got[i], r)
			return err
		}
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	sheet := measure.NewSheet(measure.Lower, "p50, ns", "p99, ns", "p99 beside the healthy one", "p99.9, us",
		"heap grown half way, MB", "at the end, MB", "lost, %")
	for i, s := range all {
		healthy := slices.IndexFunc(all, func(h sink) bool { return h.peer == healthyPeer[s.what] })
		for round, r := range got[i] {
			sheet.Add(s.what, s.who, ns(r.p50), ns(r.p99), ns(r.p99)/ns(got[healthy][round].p99), ns(r.p999)/1e3,
				r.halfWay/1e6, r.end/1e6, 100*float64(r.lost)/float64(max(r.requests, 1)))
		}
	}
	return report.Write(sheet)
}

func ns(d time.Duration) float64 { return float64(d) }
