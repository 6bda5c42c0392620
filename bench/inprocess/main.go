package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; every contender runs once in each")
	length := flag.Duration("for", 300*time.Millisecond, "how long one measurement takes")
	pour := flag.Duration("flood", 3*time.Second, "how long one flood takes; 0: none")
	report := measure.NewReport("inprocess", "github.com/alibaba/sentinel-golang")
	report.Seed = "none: other values of the flood are random"
	flag.Parse()
	if err := run(report, *rounds, *length, *pour); err != nil {
		fmt.Fprintln(os.Stderr, "inprocess:", err)
		os.Exit(1)
	}
}

func run(report *measure.Report, rounds int, length, pour time.Duration) error {
	if err := startSentinel(); err != nil {
		return err
	}
	costs := measure.NewSheet(measure.Lower, "ns/op", "CPU ns/op", "allocs/op")
	floods := measure.NewSheet(measure.Lower, "admitted", "asked", "may be admitted", "other values, M/s",
		"slowest check, ms", "over 1 ms, per million")
	cases := costCases(costs, length)
	if pour > 0 {
		cases = append(cases, floodCases(floods, pour)...)
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	if pour <= 0 {
		return report.Write(costs)
	}
	return report.Write(costs, floods)
}
