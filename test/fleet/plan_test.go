package fleet

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

var update = flag.Bool("update", false, "write the computed tables into docs/scale.md")

const scalePage = "../../docs/scale.md"

// inputs are the inputs of the page, by name.
type inputs map[string]float64

func (in inputs) get(name string) float64 {
	v, ok := in[name]
	if !ok {
		panic("docs/scale.md has no input " + name)
	}
	return v
}

var inputRow = regexp.MustCompile(`(?m)^\| ([a-z ]+) \| ([0-9.]+) \|`)

// TestPlan computes the tables of docs/scale.md.
func TestPlan(t *testing.T) {
	text, err := os.ReadFile(scalePage)
	if err != nil {
		t.Fatal(err)
	}
	page, in := string(text), inputs{}
	head, _, _ := strings.Cut(page, "<!-- computed")
	for _, m := range inputRow.FindAllStringSubmatch(head, -1) {
		if in[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	checkInputs(t, in)
	for name, table := range planTables(t, in) {
		begin, end := "<!-- computed: "+name+" -->\n", "<!-- end -->"
		at := strings.Index(page, begin)
		if at < 0 {
			t.Fatalf("docs/scale.md has no place for the table %q", name)
		}
		at += len(begin)
		after := at + strings.Index(page[at:], end)
		if !sameTable(page[at:after], table) {
			t.Errorf("the table %q of docs/scale.md is another one; go test -run TestPlan ./fleet -update. Computed:\n%s", name,
				table)
		}
		page = page[:at] + table + page[after:]
	}
	if *update {
		if err := os.WriteFile(scalePage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// sameTable reports whether two tables have the same words, and numbers that differ by up to 5 % or by one in the last
// digit: a map has no order, so a run sends some lines more or less.
func sameTable(a, b string) bool {
	as, bs := number.FindAllString(a, -1), number.FindAllString(b, -1)
	if number.ReplaceAllString(a, "#") != number.ReplaceAllString(b, "#") {
		return false
	}
	for i := range as { // as many numbers, since the words between them are the same
		x, _ := strconv.ParseFloat(as[i], 64)
		y, _ := strconv.ParseFloat(bs[i], 64)
		_, digits, _ := strings.Cut(as[i], ".")
		if math.Abs(x-y) > max(0.05*x, 1.01*math.Pow10(-len(digits))) {
			return false
		}
	}
	return true
}

// checkInputs compares the inputs that code decides with the code.
func checkInputs(t *testing.T, in inputs) {
	t.Helper()
	var s size
	synctest.Test(t, func(t *testing.T) {
		s = size{limiters: 20, hot: 1, clients: 500}
		s.measure(t)
	})
	for _, c := range []struct {
		input string
		is    float64
		by    float64
	}{
		{"base commands", s.cold.commands / 20, 0.1 * in.get("base commands")},
		{"base bytes", (s.cold.in + s.cold.out) / 20 / 1000, 0.1 * in.get("base bytes")},
		{"report keys", reportKeys, 0},
		{"most senders", arrivalFlows, 0},
		{"most processes", windowProcesses, 0},
	} {
		if math.Abs(c.is-in.get(c.input)) > c.by {
			t.Errorf("docs/scale.md: %s is %.4g, and the code says %.4g", c.input, in.get(c.input), c.is)
		}
	}
}

// These are private bounds of other packages, which tests of those packages hold.
const (
	arrivalFlows    = 1024 // maxFlows of package statsd
	windowProcesses = 512  // max_processes of lua/limit_exchange.lua
	reportKeys      = 150  // minReportKeys of package rediscontrol
)

// harmonic is the sum of 1/i for i up to n.
func harmonic(n float64) float64 { return math.Log(n) + 0.5772 + 1/(2*n) }

// sent holds the numbers that one limiter sends in a second.
type sent struct{ counts, lines, statsd, kafka float64 }

// measureSent counts a second of requests as a limiter does, for keys by Zipf's law and clients at random, and sends
// them both ways.
func measureSent(t *testing.T, rate int, in inputs) (s sent) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(1)
		out := n.ListenPacket("server")
		sender, err := statsd.NewSender(statsd.SenderConfig{Servers: []string{"server:8125"}, Names: names,
			Dial: n.Dial("limiter", addrOf(1))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = sender.Run(ctx) })
		both := sinkFunc(func(ctx context.Context, counts []hottype.Count) error {
			r := kafka.Record{Namespace: namespace, Source: "limiter", Epoch: 1, Sequence: 1, Counts: counts}
			s.counts += float64(len(counts))
			s.kafka += float64(len(r.Append(nil)))
			return sender.Send(ctx, counts)
		})
		sums := tally.New(tally.Config{Sink: both, Flush: time.Hour})
		random := rand.New(rand.NewPCG(1, 2))
		keys, every := math.Log(in.get("keys")), int(float64(rate)*in.get("flush"))
		for i := range rate {
			// Zipf's law with exponent 1: the logarithm of the rank is uniform.
			rank, client := math.Exp(random.Float64()*keys), random.Uint32N(uint32(in.get("clients")))
			key := fmt.Appendf(nil, "topic?id=%09d", int(rank))
			sums.AddFrom(key, time.Now().Unix(), 1, request("", client).Client)
			if (i+1)%every == 0 {
				_ = sums.Flush(t.Context())
				time.Sleep(time.Duration(in.get("flush") * float64(time.Second)))
			}
		}
		stop()
		running.Wait()
		st := sender.Stats()
		s.lines = float64(st.Lines)
		buf := make([]byte, 1<<16)
		_ = out.SetReadDeadline(time.Now().Add(time.Second))
		for {
			k, _, err := out.ReadFrom(buf)
			if err != nil {
				break
			}
			s.statsd += float64(k)
		}
		_ = out.Close()
	})
	return s
}

type sinkFunc func(context.Context, []hottype.Count) error

func (f sinkFunc) Send(ctx context.Context, counts []hottype.Count) error { return f(ctx, counts) }

// countersFor returns the smallest power of two with which the detector accepts the rule at a rate.
func countersFor(t *testing.T, in inputs, rate float64) int {
	t.Helper()
	set, err := rules.Parse("scale", fmt.Appendf(nil, "namespace: n\nrules:\n  - {name: r, match: {path: /topic}, params: [id], "+
		"hot: {rate: %.0f, window: %.0fs}}\n", in.get("threshold"), in.get("window")))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1024; n <= 1<<24; n *= 2 {
		if pipeline.CheckRules(set, aggregate.Config{Counters: n, MaxRate: rate}) == nil {
			return n
		}
	}
	t.Fatalf("no number of counters is enough for %.0f requests a second", rate)
	return 0
}

// planTables computes the tables, by name.
func planTables(t *testing.T, in inputs) map[string]string {
	t.Helper()
	requests, limiters, zones, load := in.get("requests"), in.get("limiters"), in.get("zones"), in.get("load")/100
	perLimiter := requests / limiters
	one := measureSent(t, int(perLimiter), in)
	counts := limiters * one.counts
	const us, mega = 1e-6, 1e6

	// There are at least as many aggregators as zones, and each has at most four cores.
	countCores := limiters*one.lines*in.get("line work")*us + counts*in.get("count work")*us
	aggregators := zones * math.Ceil(countCores/load/4/zones)
	reported := limiters * min(in.get("hot keys"), in.get("report keys")) // keys a second, in all reports
	reportCores := reported * in.get("report work") * us                  // of each reader
	counters := countersFor(t, in, requests/aggregators)
	limiterCores := perLimiter * (in.get("decision") + in.get("two windows")) * 1e-9

	// This is the load of Redis without shared limits.
	base := (limiters + 2*aggregators) * in.get("base commands")
	baseCores := base * in.get("command work") * us
	hotRequests := requests * harmonic(in.get("hot keys")) / harmonic(in.get("keys"))
	byKey := min(hotRequests, 2*in.get("limit")*in.get("hot keys"))
	pairs := requests * in.get("client window") // of clients and limiters in a window
	clients := in.get("clients")
	active := clients * (1 - math.Exp(-requests*in.get("client window")/clients))
	masters := func(cores float64) string {
		n := math.Ceil(cores / load)
		if n > in.get("shards") {
			return fmt.Sprintf("%.0f: more than there are shards", n)
		}
		return fmt.Sprintf("%.0f", n)
	}
	across := (zones - 1) / zones
	var processes, bytes, redis, limits strings.Builder
	row := func(b *strings.Builder, format string, args ...any) {
		if strings.HasPrefix(format, "---") {
			b.WriteString("|" + format + "|\n")
			return
		}
		fmt.Fprintf(b, "| "+format+" |\n", args...)
	}

	row(&processes, "part | processes | cores together | memory of each")
	row(&processes, "---|---|---|---")
	row(&processes, "middleware, %.0f requests/s in each | %.0f, in the services | %.1f | %.0f MB of clients", perLimiter,
		limiters, limiterCores*limiters, clients/limiters*in.get("client bytes")/mega)
	row(&processes, "aggregators, %.1f M counts/s, %.1f M lines/s | %.0f, and a standby for each | %.1f, twice | %.0f MB: %d counters", counts/mega, limiters*one.lines/mega,
		aggregators, countCores, float64(counters)*in.get("counter")/mega, counters)
	row(&processes, "the same, to read %.0f k keys in reports a second for the page | in them | %.1f |", reported/1000,
		2*aggregators*reportCores)
	row(&processes, "Redis for hot sets, overrides and reports, %.1f k commands/s | 1, and replicas | %.2f | %.1f MB", base/1000,
		baseCores, 2*in.get("hot keys")*in.get("hot key bytes")*aggregators/mega)

	row(&bytes, "what | MB/s | MB/s between zones")
	row(&bytes, "---|---|---")
	tens := func(bytes float64) float64 { return math.Round(bytes/mega/10) * 10 }
	row(&bytes, "counts by StatsD, to an aggregator and its standby | %.0f | %.0f", tens(2*limiters*one.statsd),
		tens(2*limiters*one.statsd*across))
	row(&bytes, "counts by Kafka, before compression, written once, read once | %.0f | %.0f", tens(2*limiters*one.kafka),
		tens(2*limiters*one.kafka*across))
	reports := (1 + 2*aggregators) * reported * in.get("report bytes")
	row(&bytes, "keys in reports, written once, read by each aggregator's page | %.0f | %.0f", reports/mega,
		reports*across/mega)
	row(&bytes, "hot sets, overrides, other reports | %.1f | %.1f", (limiters*in.get("base bytes")/1000)+
		limiters*in.get("change bytes")*in.get("hot keys")/10_000/1000,
		((limiters*in.get("base bytes")/1000)+limiters*in.get("change bytes")*in.get("hot keys")/10_000/1000)*across)

	row(&redis, "requests for hot keys go | decisions of Redis a second | its cores | masters")
	row(&redis, "---|---|---|---")
	row(&redis, "to any limiter | %.1f M | %.1f | %s", hotRequests/mega, hotRequests*in.get("hot decision work")*us,
		masters(hotRequests*in.get("hot decision work")*us))
	row(&redis, "to a limiter by the key | %.1f M | %.1f | %s", byKey/mega, byKey*in.get("hot decision work")*us,
		masters(byKey*in.get("hot decision work")*us))
	row(&redis, "to a limiter by the key, `scope: instance` | 0 | 0 | 0")
	row(&redis, "to any limiter, `scope: instance` with a %.0fth of the limit | 0 | 0 | 0", limiters)

	row(&limits, "windows of clients | sums of Redis a second | its cores | masters")
	row(&limits, "---|---|---|---")
	row(&limits, "`consistency: async`, a client goes to any limiter | %.1f M | %.1f | %s", pairs/mega, pairs*in.get("sum work")*us,
		masters(pairs*in.get("sum work")*us))
	row(&limits, "the same, to a limiter by its address | %.1f M | %.1f | %s", active/mega, active*in.get("sum work")*us,
		masters(active*in.get("sum work")*us))
	row(&limits, "to a limiter by its address, `scope: instance` | 0 | 0 | 0")

	return map[string]string{"processes": processes.String(), "bytes": bytes.String(), "hot keys": redis.String(),
		"windows": limits.String(), "bounds": bounds(in, countCores/aggregators, baseCores)}
}

// bounds lists the size at which each part reaches a whole core or a bound of the code, the smallest first.
func bounds(in inputs, aggregatorCores, baseCores float64) string {
	type bound struct {
		what, then string
		times      float64
	}
	list := []bound{
		{"processes that share the windows of one client", "windows with `scope: instance`, clients by address; a window that " +
			"is full is logged and limited by each process alone", in.get("most processes") / in.get("limiters")},
		{"senders of one StatsD listener whose arrival is checked", "a collector in each zone, or more aggregators; losses of " +
			"the others are not seen", in.get("most senders") / in.get("limiters")},
		{"four cores of an aggregator", "more aggregators in the list of all senders, or more partitions", 4 / aggregatorCores},
		{"the core of the Redis with the hot set", "a namespace, with a Redis of its own, for each part of the site", 1 / baseCores},
	}
	slices.SortFunc(list, func(a, b bound) int { return cmp.Compare(a.times, b.times) })
	var b strings.Builder
	b.WriteString("| bound | reached at, x this plan | then |\n|---|---|---|\n")
	for _, one := range list {
		fmt.Fprintf(&b, "| %s | %.1f | %s |\n", one.what, one.times, one.then)
	}
	return b.String()
}
