package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/internal/wait"
)

type Kind int

const (
	Quiet   Kind = iota // readers of any topic but the viral one
	Viral               // readers of the viral topic
	Crawler             // a few addresses that fetch page after page
	Loop                // one client that requests one topic over and over
	kinds
)

// Visitors sends requests to a site. Build it with NewVisitors. Run may be called once.
type Visitors struct {
	targets []string
	topics  int
	client  *http.Client
	zipf    *rand.Zipf // used by the pacing goroutine only
	rnd     *rand.Rand
	rates   [kinds]atomic.Int64 // requests per second
	jobs    chan job
	tally   [kinds]outcome
	// Behind counts requests that were due when all connections were busy.
	Behind atomic.Uint64
	onSend func(Kind, time.Time)
	onDone func(Kind, int)
}

type job struct {
	kind   Kind
	topic  uint64
	client string
	target string
}

type outcome struct{ ok, denied, failed atomic.Uint64 }

// Seen counts the responses that one group has received so far.
type Seen struct {
	OK     uint64 `json:"ok"`
	Denied uint64 `json:"denied"`
	Failed uint64 `json:"failed"`
}

// Sub returns the counts since an earlier Seen.
func (s Seen) Sub(o Seen) Seen { return Seen{s.OK - o.OK, s.Denied - o.Denied, s.Failed - o.Failed} }

// formatCounts returns the counts that are not 0, with two spaces at the end.
func (s Seen) formatCounts(name string) []byte {
	var b []byte
	for _, n := range []struct {
		n  uint64
		of string
	}{{s.OK, "ok"}, {s.Denied, "denied"}, {s.Failed, "failed"}} {
		if n.n > 0 {
			b = fmt.Appendf(b, " %d %s", n.n, n.of)
		}
	}
	if b == nil {
		return nil
	}
	return append(append([]byte(name), b...), "  "...)
}

func (s Seen) Total() uint64 { return s.OK + s.Denied + s.Failed }

const (
	// ViralTopic is the topic that goes viral. It is not among the Zipf topics.
	ViralTopic = 4242
	// LoopTopic is the topic that a client in a loop requests. Others read it too.
	LoopTopic    = 7
	loopClient   = "198.51.100.77"
	crawlerAgent = "demo-crawler/1.0 (+bot)"
	connections  = 256
)

// NewVisitors returns visitors of the given number of topics at targets ("http://host:port"), which are chosen at
// random. The seed makes their choices repeatable, but their timing is real.
func NewVisitors(targets []string, topics int, seed uint64) *Visitors {
	rnd := rand.New(rand.NewPCG(seed, seed))
	return &Visitors{
		targets: targets, topics: topics, rnd: rnd, zipf: rand.NewZipf(rnd, 1.1, 8, uint64(topics-1)),
		jobs: make(chan job, connections),
		client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
			MaxIdleConnsPerHost: connections, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext,
		}},
	}
}

func (v *Visitors) SetRate(k Kind, perSecond int64) { v.rates[k].Store(perSecond) }

func (v *Visitors) Seen(k Kind) Seen {
	o := &v.tally[k]
	return Seen{o.ok.Load(), o.denied.Load(), o.failed.Load()}
}

// Run sends until ctx ends and waits for the last answers.
func (v *Visitors) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for j := range v.jobs {
				v.send(ctx, j)
			}
		})
	}
	v.sendDue(ctx)
	close(v.jobs)
	wg.Wait()
	v.client.CloseIdleConnections()
	return nil
}

// sendDue hands out the requests that are due, every few milliseconds.
func (v *Visitors) sendDue(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	var due [kinds]float64
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			dt := min(now.Sub(last).Seconds(), 0.25) // after a pause, do not catch up in one burst
			last = now
			for k := range kinds {
				for due[k] += dt * float64(v.rates[k].Load()); due[k] >= 1; due[k]-- {
					v.queueJob(v.nextJob(k))
				}
			}
		}
	}
}

func (v *Visitors) queueJob(j job) {
	select {
	case v.jobs <- j:
	default:
		v.Behind.Add(1)
	}
}

func (v *Visitors) nextJob(k Kind) job {
	reader := fmt.Sprintf("10.%d.%d.%d", v.rnd.IntN(20), v.rnd.IntN(250), 1+v.rnd.IntN(250))
	j := job{kind: k, client: reader, target: v.targets[v.rnd.IntN(len(v.targets))]}
	switch k {
	case Viral:
		j.topic = ViralTopic
	case Crawler:
		j.topic, j.client = uint64(v.rnd.IntN(v.topics)), fmt.Sprintf("192.0.2.%d", 1+v.rnd.IntN(3))
	case Loop:
		j.topic, j.client = LoopTopic, loopClient
	default:
		j.topic = v.zipf.Uint64()
	}
	return j
}

func (v *Visitors) send(ctx context.Context, j job) {
	if v.onSend != nil {
		v.onSend(j.kind, time.Now())
	}
	status, err := v.fetchTopic(ctx, j)
	o := &v.tally[j.kind]
	switch {
	case ctx.Err() != nil:
		return // the last response was not waited for
	case err != nil || status >= 500:
		o.failed.Add(1)
	case status == http.StatusTooManyRequests:
		o.denied.Add(1)
	default:
		o.ok.Add(1)
	}
	if v.onDone != nil {
		v.onDone(j.kind, status)
	}
}

func (v *Visitors) fetchTopic(ctx context.Context, j job) (int, error) {
	url := fmt.Sprintf("%s/topic?id=%d&utm_source=demo", j.target, j.topic)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Forwarded-For", j.client)
	if j.kind == Crawler {
		req.Header.Set("User-Agent", crawlerAgent)
	}
	res, err := v.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// Loaded counts the visitors' requests by their result.
type Loaded struct {
	Quiet   Seen `json:"quiet"`
	Viral   Seen `json:"viral"`
	Crawler Seen `json:"crawler"`
}

// Load sends the demo's visitors to targets until ctx ends, writes a line a second, and returns the sums.
func Load(ctx context.Context, out io.Writer, targets []string, topics int) (Loaded, error) {
	c := NewVisitors(targets, max(topics, 10), uint64(time.Now().UnixNano()))
	c.SetRate(Quiet, quietRate)
	c.SetRate(Crawler, crawlerRate)
	plan := newPlan(0)
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Run(ctx) })
	var last [kinds]Seen
	var line []byte
	group.Go(func() error {
		wait.Every(ctx, time.Second, func() {
			rate := int64(0)
			if isViral(plan.phaseAt(time.Since(start))) {
				rate = viralRate
			}
			c.SetRate(Viral, rate)
			for k, name := range []string{"quiet", "viral", "crawlers"} {
				seen := c.Seen(Kind(k))
				d := seen.Sub(last[k])
				last[k] = seen
				line = append(line, d.formatCounts(name)...)
			}
			_, _ = fmt.Fprintf(out, "%s\n", bytes.TrimRight(line, " "))
			line = line[:0]
		})
		return nil
	})
	err := group.Wait()
	return Loaded{c.Seen(Quiet), c.Seen(Viral), c.Seen(Crawler)}, err
}
