package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	detectEvery  = 100 * time.Millisecond // an aggregator ticks so often
	controlEvery = time.Second
	// sidecarLag is the time that the hot set, reports and bounds take between processes.
	sidecarLag = 200 * time.Millisecond
)

// product is hotparam in front of the upstream. Gates, limit store, passes, detector and controllers are the real ones.
// Several gates are sidecars that share a limit store, as sidecars with Redis do, an aggregator, and the secret of
// passes. A load balancer in front of them chooses at random.
type product struct {
	*clock
	random *rand.Rand
	set    *rules.Set
	gates  []*gate.Gate
	passes *visitorpass.Passes
	lag    time.Duration

	detector    *detect.Detector
	hot         hotset.Replica
	version     uint64
	controllers adaptive.Controllers
}

// newProduct returns a product with a number of limiters, which does nothing before it is started.
func newProduct(c *clock, random *rand.Rand, rulesFile string, limiters int) (*product, error) {
	set, err := rules.Parse("rules.yaml", []byte(rulesFile))
	if err != nil {
		return nil, fmt.Errorf("flood: %w", err)
	}
	return newProductOf(c, random, set, limiters), nil
}

func newProductOf(c *clock, random *rand.Rand, set *rules.Set, limiters int) *product {
	p := &product{clock: c, random: random, set: set, passes: visitorpass.New("flood"), detector: detect.New(set,
		detect.Options{})}
	p.passes.SetSecret(visitorpass.Day(epoch), visitorpass.Secret{1})
	if limiters > 1 {
		p.lag = sidecarLag
	}
	store := limit.NewMemory(limit.MemoryConfig{})
	for range limiters {
		p.gates = append(p.gates, gate.New(gate.Config{Rules: set, Hot: &p.hot, Local: store, Counter: (*counter)(p),
			Passes: p.passes}))
	}
	return p
}

// counter hands the counts of requests to the detector.
type counter product

func (c *counter) AddFrom(key []byte, second, n int64, _ hottype.Client) {
	c.detector.Add(c.time(), hottype.Count{Key: hottype.Key(key), N: n, Second: second})
}

func (c *counter) AddCost(key []byte, second, cost, _ int64, client hottype.Client) {
	c.AddFrom(key, second, cost, client)
}

// start starts the regular work of the processes.
func (p *product) start() {
	p.every(detectEvery, p.now+detectEvery, p.detect)
	if len(p.set.AdaptiveUpstreams()) > 0 {
		p.every(controlEvery, p.now+controlEvery, p.control)
	}
}

// detect publishes the hot set if it has changed, and once a second.
func (p *product) detect() {
	set, changes := p.detector.Tick(p.time())
	if len(changes) == 0 && p.now%time.Second != 0 {
		return
	}
	p.version++
	set.Version = p.version
	p.after(p.lag, func() { p.hot.Replace("aggregator", set) })
}

// control collects the reports of the limiters, and hands them the bounds that the controllers derive.
func (p *product) control() {
	var reports []report.Limiter
	for i, g := range p.gates {
		reports = append(reports, report.Limiter{Instance: fmt.Sprint("limiter", i), At: p.time(),
			Upstreams: g.Upstreams().Reports(p.time())})
	}
	p.after(p.lag, func() {
		bounds := p.controllers.Tick(p.time(), p.set, p.hot.Hot(p.time()), reports)
		p.after(p.lag, func() {
			for _, g := range p.gates {
				g.Upstreams().SetBounds(p.time(), bounds)
			}
		})
	})
}

// ask decides on a request, forwards it to the upstream if it is allowed, and returns the verdict.
func (p *product) ask(req *hottype.Request, up *upstream, done func(reply)) verdict.Verdict {
	g := p.gates[p.random.IntN(len(p.gates))]
	v := g.Begin(context.Background(), p.time(), req, true)
	if !v.Allowed {
		whole := seconds(int(math.Ceil(v.RetryAfter.Seconds()))) // as in the field of the response
		done(reply{outcome: refused, cookie: v.Pass.String(), retryAfter: whole})
		return v
	}
	began := p.now
	g.UpstreamBegins(p.time(), v.Upstream)
	up.ask(func(ok bool) {
		status := http.StatusOK
		if !ok {
			status = http.StatusServiceUnavailable
		}
		g.UpstreamEnds(p.time(), v.Upstream, p.now-began, status)
		if v.Lease != nil {
			g.Release(p.time(), v.Lease)
		}
		done(outcomeAtUpstream(ok))
	})
	return v
}
