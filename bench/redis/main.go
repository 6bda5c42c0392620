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
	// threeCallers ask for three limits at once.
	threeCallers = 64
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; every contender runs once in each")
	length := flag.Duration("for", 400*time.Millisecond, "how long one measurement takes")
	callers := flag.String("callers", "1,16,64,256", "how many ask at the same time")
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

// question is one row of the table.
type question struct {
	what      string
	callers   int
	perSecond int
	three     bool // the limits of a client beside that of the key
	contender contender
}

// cases are all questions.
func (b *bench) cases(ctx context.Context, list string) (cases []func() error, err error) {
	add := func(q question) {
		q.what = fmt.Sprintf("%s, %d callers", q.what, q.callers)
		for _, c := range contenders() {
			q := q
			q.contender = c
			cases = append(cases, func() error { return b.one(ctx, q) })
		}
	}
	var callers []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-callers: %q is no number of callers", text)
		}
		callers = append(callers, n)
	}
	for _, n := range callers {
		add(question{what: "one hot key, admitted", callers: n, perSecond: never})
	}
	for _, n := range callers {
		add(question{what: "one hot key, refused", callers: n, perSecond: soon})
	}
	add(question{what: "bucket + fixed + sliding, admitted", callers: threeCallers, perSecond: never, three: true})
	return cases, nil
}

// one measures a contender on a key that nobody has used.
func (b *bench) one(ctx context.Context, q question) error {
	l, err := q.contender.open(b.addr, q.perSecond, q.three)
	if err != nil {
		return err
	}
	defer l.close()
	b.runs++
	o, err := load{l.ask, q.callers, "topic?id=" + strconv.Itoa(b.runs), b.d}.run(ctx, b.rdb)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", q.what, q.contender.name, err)
	}
	n := float64(o.decisions)
	b.sheet.Add(q.what, q.contender.name, n/o.took.Seconds()/1e3, float64(o.p99)/1e6, float64(o.redisCPU)/n/1e3,
		100*float64(o.admitted)/n, 100*float64(o.errors)/(n+float64(o.errors)))
	if o.firstErr != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %d errors, one of them: %v\n", q.what, q.contender.name, o.errors, o.firstErr)
	}
	return nil
}
