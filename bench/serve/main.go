package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/hotparam/pipeline/bench/internal/httpload"
	"github.com/hotparam/pipeline/bench/internal/measure"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds")
	length := flag.Duration("for", 4*time.Second, "how long one measurement takes")
	connections := flag.Int("connections", 32, "how many ask for hits at the same time")
	ours := flag.String("ours", "../bin/hotparam", "the hotparam program")
	nginx := flag.String("nginx", "nginx", "nginx; left out if it is not there")
	listen := flag.String("bare", "", "be the handler that only writes, at this address")
	report := measure.NewReport("serve", "nginx")
	flag.Parse()
	if *listen != "" {
		fmt.Fprintln(os.Stderr, "serve:", http.ListenAndServe(*listen, http.HandlerFunc(writePage)))
		os.Exit(1)
	}
	if err := run(report, *rounds, *length, *connections, *ours, *nginx); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(report *measure.Report, rounds int, d time.Duration, connections int, ours, nginx string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "hotparam-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // nginx started by root has workers of another user
		return err
	}
	site, addr, err := listenUpstream()
	if err != nil {
		return err
	}
	c, err := startOurs(ctx, dir, ours, addr)
	if err != nil {
		return err
	}
	defer c.End()
	all := []*contender{c}
	if path, err := exec.LookPath(nginx); err != nil {
		fmt.Fprintln(os.Stderr, "serve: without nginx:", err)
	} else {
		c, err := startNginx(ctx, dir, path, addr)
		if err != nil {
			return err
		}
		defer c.End()
		all = append(all, c)
	}
	bare, err := startBare(ctx)
	if err != nil {
		return err
	}
	defer bare.Stop()
	hits := measure.NewSheet(measure.Higher, "k hits/s", "p50, ms", "p99, ms", "CPU of the proxy, us a request")
	viral := measure.NewSheet(measure.Higher, "answered, %", "p99, ms", "asked of the upstream in the first second",
		"later, in the busiest second", "later, at once", "others: p99 before, ms", "others: p99 during, ms")
	var cases []func() error
	for _, c := range append(all, bare) {
		cases = append(cases, func() error { return c.hits(hits, connections, d) })
	}
	waves := 0
	for _, c := range all {
		cases = append(cases, func() error {
			waves++
			return c.viral(viral, site, "/topic?id=viral"+strconv.Itoa(waves), d)
		})
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return report.Write(hits, viral)
}

func (c *contender) hits(sheet *measure.Sheet, connections int, d time.Duration) error {
	const warm = 2 * time.Second
	target := func(int, int) string { return "/topic?id=hot" }
	if _, err := httpload.Run(c.addr, connections, warm, target); err != nil { // makes the topic hot
		return fmt.Errorf("%s: %w", c.name, err)
	}
	before, err := c.CPU()
	if err != nil {
		return err
	}
	got, err := httpload.Run(c.addr, connections, d, target)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := c.CPU()
	if err != nil {
		return err
	}
	if others := got.Requests - got.Status[http.StatusOK]; others > 0 {
		return fmt.Errorf("%s, hits: %v, want 200", c.name, got.Status)
	}
	sheet.Add("hits", c.name, float64(got.Requests)/got.Took.Seconds()/1e3, got.P50.Seconds()*1e3,
		got.P99.Seconds()*1e3,
		float64(after-before)/float64(got.Requests)/1e3)
	return nil
}

// The rates of the wave.
const (
	viralRate  = 3000 // a second
	othersRate = 200
	knownAfter = time.Second // the topic is hot everywhere by then
)

// viral sends a wave for a topic without requests before.
func (c *contender) viral(sheet *measure.Sheet, site *upstream, target string, d time.Duration) error {
	n := 0
	others := func() (httpload.Result, error) {
		n++
		round := target[len("/topic?id="):] + "-" + strconv.Itoa(n) + "-"
		return httpload.Paced(c.addr, 16, d, othersRate,
			func(i, k int) string { return "/topic?id=" + round + strconv.Itoa(i*100_000+k) })
	}
	before, err := others()
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	began := time.Now()
	var (
		wave      httpload.Result
		waveFault error
		done      sync.WaitGroup
	)
	done.Go(func() {
		wave, waveFault = httpload.Paced(c.addr, 64, d, viralRate, func(int, int) string { return target })
	})
	during, err := others()
	done.Wait()
	if err != nil || waveFault != nil {
		return fmt.Errorf("%s: %w", c.name, errors.Join(err, waveFault))
	}
	asked := site.met(target, began.Add(knownAfter))
	sheet.Add("a viral topic", c.name, 100*float64(wave.Status[http.StatusOK])/float64(wave.Requests),
		wave.P99.Seconds()*1e3,
		float64(asked.before), float64(asked.perSecond), float64(asked.atOnce), before.P99.Seconds()*1e3,
		during.P99.Seconds()*1e3)
	return nil
}
