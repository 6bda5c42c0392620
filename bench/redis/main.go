package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
)

// Limits a second: one that these loads never reach, and one of a hot key.
const (
	never = 1_000_000
	soon  = 100
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; every contender runs once in each")
	length := flag.Duration("for", 400*time.Millisecond, "how long one measurement takes")
	callers := flag.String("callers", "1,16,64", "how many ask at the same time")
	server := flag.String("server", "redis-server", "the server to start")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *rounds, *length, *callers); err != nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string, rounds int, d time.Duration, callers string) error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	p, err := process.Start(ctx, nil, server, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err != nil {
		return err
	}
	defer p.Stop()
	b := bench{addr: "127.0.0.1:" + strconv.Itoa(port), d: d}
	b.rdb = redis.NewClient(&redis.Options{Addr: b.addr})
	defer b.rdb.Close()
	if err := p.Await(func() error { return b.rdb.Ping(ctx).Err() }); err != nil {
		return err
	}
	b.sheet = measure.NewSheet(measure.Higher, "k decisions/s", "p99, ms", "Redis CPU, us", "admitted, %", "errors, %")
	cases, err := b.cases(ctx, callers)
	if err != nil {
		return err
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return b.sheet.Write(os.Stdout)
}

type bench struct {
	addr  string
	d     time.Duration
	rdb   *redis.Client // asks the server how it is
	sheet *measure.Sheet
	runs  int
}

// cases are all questions. The decision by three limits is asked with the
// greatest number of callers.
func (b *bench) cases(ctx context.Context, list string) (cases []func() error, err error) {
	most := 0
	add := func(what string, c contender, callers, perSecond int, three bool) {
		what = fmt.Sprintf("%s, %d callers", what, callers)
		cases = append(cases, func() error { return b.one(ctx, what, c, callers, perSecond, three) })
	}
	for _, what := range []string{"admitted", "refused"} {
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("-callers: %q is no number of callers", text)
			}
			most = max(most, n)
			for _, c := range contenders() {
				add("one hot key, "+what, c, n, map[string]int{"admitted": never, "refused": soon}[what], false)
			}
		}
	}
	for _, c := range contenders() {
		add("bucket + fixed + sliding, admitted", c, most, never, true)
	}
	return cases, nil
}

// one measures a contender on a key that nobody has used.
func (b *bench) one(ctx context.Context, what string, c contender, callers, perSecond int, three bool) error {
	a, done, err := c.open(b.addr, perSecond, three)
	if err != nil {
		return err
	}
	defer done()
	b.runs++
	o, err := load(ctx, b.rdb, a, callers, b.d, "topic?id="+strconv.Itoa(b.runs))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", what, c.name, err)
	}
	n := float64(o.decisions)
	b.sheet.Add(what, c.name, n/o.took.Seconds()/1e3, float64(o.p99)/1e6, float64(o.redisCPU)/n/1e3,
		100*float64(o.admitted)/n, 100*float64(o.errors)/(n+float64(o.errors)))
	if o.firstErr != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %d errors, one of them: %v\n", what, c.name, o.errors, o.firstErr)
	}
	return nil
}
