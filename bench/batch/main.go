package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/decisionapi"
)

const topicRule = `
rules:
  - {name: topic, match: {path: /topic}, params: [id, lang, page], hot: {rate: 200, window: 5s}, limit: {rate: 100, burst: 200, scope: instance}}
`

const ipWindows = `
ip:
  fixed: {limit: 1000000000, window: 1s, scope: instance}
  sliding: {limit: 1000000, window: 60s, scope: instance}
`

// drain is a sink that drops the counts.
type drain struct{}

func (drain) Send(context.Context, []hottype.Count) error { return nil }

func main() {
	rounds := flag.Int("rounds", 7, "rounds")
	length := flag.Duration("for", time.Second, "how long one measurement takes")
	clients := flag.String("clients", "1,4,16", "how many connections ask at the same time")
	checks := flag.Int("checks", 100, "checks in a request, at most 1000")
	report := measure.NewReport("batch")
	flag.Parse()
	if err := run(report, *rounds, *length, *clients, *checks); err != nil {
		fmt.Fprintln(os.Stderr, "batch:", err)
		os.Exit(1)
	}
}

func run(report *measure.Report, rounds int, d time.Duration, list string, checks int) error {
	sheet := measure.NewSheet(measure.Higher, "k checks/s", "CPU of client and server, us a check",
		"p99 of a request, ms")
	var cases []func() error
	for _, yaml := range []string{topicRule, topicRule + ipWindows} {
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("-clients: %q is no number of clients", text)
			}
			what := fmt.Sprintf("%d checks a request, %d clients", checks, n)
			if yaml != topicRule {
				what += ", two per-IP windows"
			}
			q := question{what, yaml, n, checks, d}
			cases = append(cases, func() error { return q.ask(sheet) })
		}
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return report.Write(sheet)
}

// question is one row of the table.
type question struct {
	what, yaml      string
	clients, checks int
	d               time.Duration
}

// ask serves the door on a loopback port and lets clients send requests for d.
func (q question) ask(sheet *measure.Sheet) error {
	set, err := rules.Parse("bench.yaml", []byte(q.yaml))
	if err != nil {
		return err
	}
	count := tally.New(tally.Config{Sink: drain{}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = count.Run(ctx) }) // always nil
	defer running.Wait()
	defer cancel()
	door := decisionapi.Decide(gate.New(gate.Config{Rules: set, Counter: count, ColdKeys: true}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: door}
	running.Go(func() { _ = server.Serve(listener) }) // ends with Close
	defer server.Close()

	cpu, began := measure.CPU(), time.Now()
	times, err := q.load("http://"+listener.Addr().String()+"/v1/decide", began.Add(q.d))
	if err != nil {
		return err
	}
	n := float64(door.Stats().Checks)
	slices.Sort(times)
	sheet.Add(q.what, measure.Ours, n/time.Since(began).Seconds()/1e3, float64(measure.CPU()-cpu)/n/1e3,
		float64(times[len(times)*99/100])/1e6)
	return nil
}

// load makes clients post until end. A response other than 200 is an error.
func (q question) load(url string, end time.Time) ([]time.Duration, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: q.clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	all, errs := make([][]time.Duration, q.clients), make([]error, q.clients)
	var wait sync.WaitGroup
	for i := range q.clients {
		wait.Go(func() {
			for n := i; errs[i] == nil && time.Now().Before(end); n++ {
				t := time.Now()
				errs[i] = post(client, url, body(n, q.checks))
				all[i] = append(all[i], time.Since(t))
			}
		})
	}
	wait.Wait()
	return slices.Concat(all...), errors.Join(errs...)
}

func post(client *http.Client, url string, body []byte) error {
	resp, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// body returns the n-th request, with this number of checks.
func body(n, checks int) []byte {
	b := []byte{'['}
	for k := range checks {
		if k > 0 {
			b = append(b, ',')
		}
		id := (n*checks + k) % 10_000
		b = append(b, `{"method":"GET","uri":"/topic?id=`...)
		b = strconv.AppendInt(b, int64(id), 10)
		b = append(b, `&lang=en&page=3","host":"news.example","ip":"203.0.`...)
		b = strconv.AppendInt(b, int64(id%4), 10)
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(id/4%250), 10)
		b = append(b, `","headers":{"User-Agent":"Mozilla/5.0"}}`...)
	}
	return append(b, ']')
}
