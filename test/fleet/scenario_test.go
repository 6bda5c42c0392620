package fleet

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

const namespace = "fleet"

// These constants are the numbers in the rules below, for the laws.
const (
	hotRate, hotWindow = 40, 2 * time.Second
	cooldown           = 2 * time.Second
	limitRate          = 20 // the second version of the rules has secondRate
	secondRate         = 30
	limitBurst         = 40
	ipLimit, ipWindow  = 60, 5 * time.Second
)

// ruleFile returns the rules with a rate of the limit.
func ruleFile(p *plan, rate int) string {
	return fmt.Sprintf(`
namespace: %s
ip:
  fixed: {limit: %d, window: %v, consistency: async}
rules:
  - name: topic
    match: {path: "/topic"}
    params: [id]
    hot: {rate: %d, window: %v, cooldown: %v, min_clients: 5}
    limit: {algorithm: token_bucket, rate: %d, burst: %d}
`, namespace, p.ipLimit, ipWindow, hotRate, hotWindow, cooldown, rate, limitBurst)
}

func mustRules(p *plan, rate int) *rules.Set {
	return must(rules.Parse("rules.yaml", []byte(cmp.Or(p.rules, ruleFile(p, rate)))))
}

// These are the parts of a run. Faults in the middle end before the calm, in which every law must hold.
const (
	faultsFrom = 3 * time.Second
	faultsTo   = 38 * time.Second
	runFor     = 60 * time.Second
)

// These are the values of the parameter, named by the traffic that they get.
const (
	viral    = "42" // far above the threshold, by many clients
	slow     = "43" // rises from nothing
	flapping = "44" // on for some seconds, off for some
	below    = "45" // half of the threshold, by many clients
	loop     = "7"  // one client
)

// traffic holds the requests a second that all limiters together get for a value.
type traffic struct {
	id   string
	rate func(t time.Duration) float64
	one  bool // one client
	only int  // the only limiter that gets it, or -1 for all
}

// fault is a fault and its duration.
type fault struct {
	kind  string
	at    time.Duration
	took  time.Duration
	after time.Duration // until others have noticed
	who   int           // or by how many seconds a clock is set back
}

// back returns the time at which the node or link works again, and end the time at which the others know.
func (f fault) back() time.Duration { return f.at + f.took }
func (f fault) end() time.Duration  { return f.back() + f.after }

func (f fault) String() string {
	return fmt.Sprintf("%s at %.2fs for %.2fs (%d)", f.kind, f.at.Seconds(), f.took.Seconds(), f.who)
}

// faultKinds are all faults that a plan may have. Faults of Redis and of the network end by themselves; a process comes
// back.
var faultKinds = []string{
	"freeze-redis", "restart-redis", "lose-redis", "cut-limiter", "cut-aggregator", "cut-webhook", "kill-limiter",
	"kill-aggregator", "hand-over", "deaf", "storm", "no-input", "clock-drift", "clock-jump",
}

// kafkaKinds are the further faults of a plan whose counts go by Kafka.
var kafkaKinds = []string{"freeze-kafka", "restart-kafka", "leaderless"}

// plan holds the choices of a seed.
type plan struct {
	rules     string // in place of ruleFile
	limiters  int
	clients   int
	ipLimit   int  // requests of a client in a window
	collector bool // counts go through a collector
	kafka     bool // or by Kafka
	static    bool // readers keep their partitions over a restart
	link      Link // of streams
	datagrams Link
	traffic   []traffic
	viralFrom time.Duration
	viralTo   time.Duration
	faults    []fault
	sentinels []sentinelFault // nil: Redis has a fixed address
	overrides []time.Duration // a block is put then
	lift      time.Duration   // the first of them is deleted then
	push      time.Duration   // of the second version of the rules
}

func (p *plan) String() string {
	return fmt.Sprintf("%d limiters, collector %v, Kafka %v (static members %v), viral from %.2fs to %.2fs, "+
		"blocks at %v, the first lifted at %v, rules pushed at %v, faults %v, %v", p.limiters, p.collector, p.kafka,
		p.static, p.viralFrom.Seconds(), p.viralTo.Seconds(), p.overrides, p.lift, p.push, p.faults, p.sentinels)
}

// newPlan returns the plan of a seed.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 1))
	between := func(a, b time.Duration) time.Duration {
		return a + time.Duration(r.Int64N(int64(b-a))).Truncate(time.Microsecond)
	}
	p := &plan{
		limiters: 2 + r.IntN(3), clients: 500, ipLimit: ipLimit, collector: r.IntN(4) == 0,
		link: Link{Delay: 100 * time.Microsecond, Jitter: between(0, 2*time.Millisecond), Loss: 0.0005},
		datagrams: Link{Delay: 150 * time.Microsecond, Jitter: between(0, 5*time.Millisecond),
			Loss: 0.0002 * r.Float64(), Double: 0.002 * r.Float64(), Late: 0.0005 * r.Float64()},
		viralFrom: between(2*time.Second, 12*time.Second), viralTo: between(46*time.Second, 49*time.Second),
		lift: between(20*time.Second, 50*time.Second), push: between(10*time.Second, 45*time.Second),
	}
	rate := hotRate * (2 + 2*r.Float64())
	steady := func(rate float64, from, to time.Duration) func(time.Duration) float64 {
		return func(t time.Duration) float64 {
			if t < from || t >= to {
				return 0
			}
			return rate
		}
	}
	period := between(2*time.Second, 6*time.Second)
	p.traffic = []traffic{
		{id: viral, rate: steady(rate, p.viralFrom, p.viralTo), only: -1},
		{id: below, rate: steady(hotRate/2, 0, runFor), only: -1},
		{id: loop, rate: steady(50, 0, runFor), one: true, only: r.IntN(p.limiters+1) - 1},
		{id: slow, rate: func(t time.Duration) float64 { return 2 * hotRate * min(1, t.Seconds()/40) }, only: -1},
	}
	if r.IntN(2) == 0 {
		p.traffic = append(p.traffic, traffic{id: flapping, only: -1, rate: func(t time.Duration) float64 {
			if t/period%2 == 1 {
				return 0
			}
			return 1.5 * hotRate
		}})
	}
	for range 1 + r.IntN(8) {
		f := fault{kind: faultKinds[r.IntN(len(faultKinds))], who: r.IntN(1 << 16), at: between(faultsFrom, faultsTo)}
		f.took = min(time.Duration((0.05+8*r.Float64()*r.Float64())*float64(time.Second)), faultsTo-f.at)
		p.faults = append(p.faults, f)
	}
	if r.IntN(4) == 0 { // a long fault, alone
		kind := []string{"deaf", "no-input"}[r.IntN(2)]
		p.faults = []fault{{kind: kind, who: r.IntN(1 << 16), at: between(15*time.Second, 25*time.Second),
			took: 12 * time.Second}}
	}
	if seed%4 == 3 {
		p.kafka, p.collector = true, false
	}
	if seed%3 == 1 {
		p.stopProcesses(rand.New(rand.NewPCG(seed, 3)))
	}
	if p.kafka {
		p.countByKafka(rand.New(rand.NewPCG(seed, 2)))
	}
	if seed%5 == 0 {
		p.watchBySentinels(rand.New(rand.NewPCG(seed, 4)))
	}
	p.faults = slices.DeleteFunc(p.faults, p.standsStill)
	slices.SortFunc(p.faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	for range 1 + r.IntN(3) {
		p.overrides = append(p.overrides, between(time.Second, 45*time.Second))
	}
	slices.Sort(p.overrides)
	p.lift = max(p.lift, p.overrides[0]+3*time.Second)
	return p
}

// stopProcesses adds stops of processes to a plan, or replaces all faults by one stop.
func (p *plan) stopProcesses(r *rand.Rand) {
	kinds := []string{"stop-limiter", "stop-aggregator"}
	if p.collector {
		kinds = append(kinds, "stop-collector", "stop-collector")
	}
	stop := func(at time.Duration) fault {
		return fault{kind: kinds[r.IntN(len(kinds))], who: r.IntN(1 << 16), at: at,
			took: min(100*time.Millisecond+time.Duration(r.Int64N(int64(10*time.Second))), faultsTo-at)}
	}
	if r.IntN(3) == 0 {
		p.faults = []fault{stop(20 * time.Second)}
		return
	}
	for range 1 + r.IntN(4) {
		p.faults = append(p.faults, stop(faultsFrom+time.Duration(r.Int64N(int64(faultsTo-faultsFrom)))))
	}
}

// countByKafka adds the faults of Kafka to a plan whose counts go by Kafka.
func (p *plan) countByKafka(r *rand.Rand) {
	p.static = r.IntN(2) == 0
	for range r.IntN(4) {
		at := faultsFrom + time.Duration(r.Int64N(int64(faultsTo-faultsFrom)))
		p.faults = append(p.faults, fault{kind: kafkaKinds[r.IntN(len(kafkaKinds))], who: r.IntN(1 << 16), at: at,
			took: min(time.Duration(r.Int64N(int64(10*time.Second))), faultsTo-at)})
	}
	if r.IntN(4) == 0 { // a long fault, alone
		p.faults = []fault{{kind: kafkaKinds[r.IntN(len(kafkaKinds))], who: r.IntN(1 << 16), at: 20 * time.Second,
			took: 12 * time.Second}}
	}
	for i := range p.faults {
		switch f := &p.faults[i]; f.kind {
		case "kill-aggregator", "hand-over", "no-input", "stop-aggregator", "freeze-kafka", "restart-kafka",
			"leaderless":
			f.after = kafkaNotices
			if !p.static { // a dead member may own the next process's partition for that long
				f.after += sessionTimeout
			}
		case "deaf", "storm", "stop-limiter":
			f.after = kafkaNotices
		}
	}
}

// kafkaNotices is the maximum time until clients of Kafka notice that brokers, or a partition, are back: they pause for
// up to 3 s between attempts.
const kafkaNotices = 5 * time.Second

// standsStill reports whether a process would stop in good order while it may connect to Redis. The client's PubSub
// holds a mutex then, for which its Close waits, and virtual time stops while a goroutine waits for a mutex.
func (p *plan) standsStill(stop fault) bool {
	return stop.kind == "hand-over" && slices.ContainsFunc(p.faults, func(f fault) bool {
		switch f.kind {
		case "freeze-redis", "restart-redis", "lose-redis", "cut-aggregator", "stop-aggregator":
			return f.at < stop.at+time.Second && stop.at < f.end()+4*time.Second
		case "kill-aggregator", "hand-over": // the process that begins looks for the master
			return p.sentinels != nil && f.at < stop.at && stop.at < f.end()+4*time.Second
		}
		return false
	})
}
