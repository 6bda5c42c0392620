package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// Limits a second: never is not reached by these loads, and soon is the limit of a hot key.
const (
	never = 50_000_000
	soon  = 100
	// manyCallers is the number of callers of the rows that do not compare numbers of callers.
	manyCallers = 64
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; every contender runs once in each")
	length := flag.Duration("for", 400*time.Millisecond, "how long one measurement takes")
	callers := flag.String("callers", "16,64,256", "how many ask at the same time")
	only := flag.String("only", "", "a regular expression of the rows to measure, \"what, who\"")
	server := flag.String("server", "redis-server", "the server to start")
	report := measure.NewReport("redis", "github.com/go-redis/redis_rate/v10", "github.com/throttled/throttled/v2",
		"github.com/redis/rueidis/rueidislimiter", "redis-server")
	report.Seed = "none: contenders of a caller alone are asked in random order"
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, report, *server, *only, *rounds, *length, *callers); err != nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, report *measure.Report, server, only string, rounds int, d time.Duration,
	callers string) error {
	rows, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	port, err := freeport.Find()
	if err != nil {
		return err
	}
	p, err := process.Start(ctx, nil, server, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no")
	if err != nil {
		return err
	}
	defer p.Stop()
	b := bench{addr: "127.0.0.1:" + strconv.Itoa(port), d: d, only: rows}
	b.rdb = redis.NewClient(&redis.Options{Addr: b.addr})
	defer b.rdb.Close()
	if err := p.Await(func() error { return b.rdb.Ping(ctx).Err() }); err != nil {
		return err
	}
	b.sheet = measure.NewSheet(measure.Higher, "k decisions/s", "p50, ms", "p99, ms", "CPU, us", "Redis CPU, us",
		"admitted, %", "over the limit", "errors, %")
	b.lone = measure.NewSheet(measure.Lower, "mean of the fastest 95 %, us", "p50, us")
	cases, err := b.cases(ctx, callers)
	if err != nil {
		return err
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return report.Write(b.lone, b.sheet)
}

type bench struct {
	addr  string
	d     time.Duration
	rdb   *redis.Client // reads the server's statistics
	sheet *measure.Sheet
	lone  *measure.Sheet // sheet of a single caller
	only  *regexp.Regexp
}

// question is one row of the table.
type question struct {
	what      string
	callers   int
	keys      int // 0 for one key
	perSecond int
	three     bool // the limits of a client beside the limit of the key
	contender contender
}

// hotTopic is the key of a gate's rows.
const hotTopic = "topic?id=42"

// cases returns all questions.
func (b *bench) cases(ctx context.Context, list string) (cases []func() error, err error) {
	add := func(q question, contenders []contender) {
		q.what = fmt.Sprintf("%s, %d callers", q.what, q.callers)
		for _, c := range contenders {
			q := q
			q.contender = c
			if b.only.MatchString(q.what + ", " + c.name) {
				cases = append(cases, func() error { return b.one(ctx, q) })
			}
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
	for _, q := range []question{{what: "a caller alone, admitted", perSecond: never},
		{what: "a caller alone, refused", perSecond: soon}} {
		if b.only.MatchString(q.what) {
			cases = append(cases, func() error { return b.alone(ctx, q.what, q.perSecond) })
		}
	}
	for _, n := range callers {
		add(question{what: "one hot key, admitted", callers: n, perSecond: never}, contenders())
	}
	for _, n := range callers {
		add(question{what: "one hot key, refused", callers: n, perSecond: soon}, contenders())
	}
	add(question{what: "10,000 keys, admitted", callers: manyCallers, keys: 10_000, perSecond: never}, contenders())
	three := question{callers: manyCallers, perSecond: never, three: true}
	three.what = "bucket + fixed + sliding, exact"
	add(three, append(contenders(), contender{measure.Ours + ", through a gate", openGate("exact")}))
	three.what = "bucket + fixed + sliding, windows async"
	add(three, append([]contender{{measure.Ours, openGate("async")}}, peers()...))
	return cases, nil
}

// one measures a contender on an unused key.
func (b *bench) one(ctx context.Context, q question) error {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	l, err := q.contender.open(ctx, b.addr, q.perSecond, q.three)
	if err != nil {
		return err
	}
	defer l.close()
	keys := []string{hotTopic}
	for i := 1; i < q.keys; i++ {
		keys = append(keys, "topic?id="+strconv.Itoa(1000+i))
	}
	// The context has a deadline, as in every decision: some clients handle contexts that may be cancelled at any time
	// in another way.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	o, err := load{l, q.callers, keys, q.perSecond, b.d}.run(within, b.rdb)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", q.what, q.contender.name, err)
	}
	n := float64(o.decisions)
	b.sheet.Add(q.what, q.contender.name, n/o.took.Seconds()/1e3, float64(o.p50)/1e6, float64(o.p99)/1e6,
		float64(o.cpu)/n/1e3, float64(o.redisCPU)/n/1e3,
		100*float64(o.admitted)/n, float64(o.over), 100*float64(o.errors)/(n+float64(o.errors)))
	if o.firstErr != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %d errors, one of them: %v\n", q.what, q.contender.name, o.errors, o.firstErr)
	}
	return nil
}
