// Package demo shows the pipeline alive: a small site with a few thousand topics, its readers and crawlers, and one
// topic that goes viral.
//
// The site, the proxy in front of it, counting, detection and limiting are real, and joined over loopback HTTP. Only
// the visitors are made up. Their traffic comes from [Visitors], which hotparam load also points at other targets.
package demo

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

// Rules is the configuration of the demo as a file.
//
//go:embed demo.yaml
var Rules []byte

// The limit of the first wave in Rules, and its replacements in the other waves.
const (
	firstLimit    = "limit: {algorithm: token_bucket, rate: 100, burst: 100}\n"
	servedLimit   = firstLimit + "    cache: {ttl: 1s}\n"
	adaptiveLimit = "limit: {adaptive: true, min: 50, max: 2000}\n"
	target        = "\nupstreams:\n  - {name: default, target: {latency: 250ms}}\n"
)

func rulesOf(file []byte) (sets [phases]*rules.Set, err error) {
	for phase, limit := range map[int]string{limited: firstLimit, served: servedLimit, adaptive: adaptiveLimit} {
		text := bytes.Replace(file, []byte(firstLimit), []byte(limit), 1)
		if phase == adaptive {
			text = append(text, target...)
		}
		if sets[phase], err = rules.Parse("demo.yaml", text); err != nil {
			return sets, err
		}
	}
	sets[pause] = sets[adaptive] // the site is measured before the wave
	return sets, nil
}

// Options are the checked flags of the demo, and its output. An empty Admin means that there is no dashboard.
type Options struct {
	Command
	Out io.Writer
	// Result is called with the result at the end. It is nil if only people read the result.
	Result func(Result) error
	Color  bool
	Serve  string // the command that the end of the demo recommends
	Log    *slog.Logger
}

type show struct {
	opts     Options
	plan     plan
	local    *program.Local
	visitors *Visitors
	watch    *watcher
	screen   *screen
	start    time.Time
	events   chan detect.Change
	sets     [phases]*rules.Set // rules of each phase, or nil if it keeps the rules
	site     *site

	phaseStart Readers // counts before the phase; for printEvents' goroutine, like the fields below
	waves      [phases]Readers
	course     []Second
	siteBefore uint64 // requests that had reached the site
	limits     []Limit
	lastRate   float64 // the rate that was printed last
}

// Run shows the demo until its duration is over or ctx ends.
func Run(ctx context.Context, opts Options) error {
	sets, err := rulesOf(Rules)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "hotparam-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(state)
	s := &show{opts: opts, plan: newPlan(opts.Duration), screen: &screen{opts.Out, opts.Color},
		events: make(chan detect.Change, 64), sets: sets}
	if s.site, err = openSite(ctx); err != nil {
		return err
	}
	defer s.site.Close()
	rule := sets[limited].RuleFor("topic")
	s.watch = newWatcher(hottype.NewKey("topic", fmt.Sprintf("id=%d", ViralTopic)),
		rule.Threshold(), rule.Hot.Window, float64(rule.Limit.Spec.Limit), float64(rule.Limit.Spec.Burst))
	settings := serveSettings(opts, s.site.Addr, state)
	if s.local, err = program.NewLocal(ctx, settings, sets[limited], program.LocalOptions{
		Version: config.Version(), OnChange: s.onChanges, Log: opts.Log,
	}); err != nil {
		return err
	}
	s.visitors = NewVisitors([]string{"http://" + s.local.Addr()}, opts.Topics, 1)
	s.visitors.onSend, s.visitors.onDone = s.watch.onSend, s.watch.onDone
	return s.playPlan(ctx)
}

// playPlan plays the plan. The pipeline stops last, so that the last requests of the visitors are answered.
func (s *show) playPlan(ctx context.Context) error {
	pipeline, stopPipeline := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPipeline()
	served := make(chan error, 1)
	go func() { served <- s.local.Run(pipeline) }()

	s.screen.printHead(s.opts.Topics, "http://"+s.local.Addr()+"/topic?id=1", s.local.Dashboard(), s.plan)
	s.start = time.Now()
	if s.opts.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.Duration)
		defer cancel()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.visitors.Run(ctx) })
	group.Go(func() error { return s.printEvents(ctx) })
	err := group.Wait()
	s.finishPhase(time.Since(s.start), s.plan.phaseAt(time.Since(s.start)))
	result := s.resultSoFar()
	stopPipeline()
	if served := <-served; err == nil {
		err = served
	}
	s.screen.printResult(result, s.opts.Serve)
	if err == nil && s.opts.Result != nil {
		err = s.opts.Result(result)
	}
	return err
}

// onChanges passes changes on to printEvents. The aggregator calls it, so it must not wait for a slow terminal.
func (s *show) onChanges(changes []detect.Change) {
	for _, c := range changes {
		select {
		case s.events <- c:
		default: // the screen lacks a line; the dashboard has it
		}
	}
}

func (s *show) printEvents(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	phases := time.NewTicker(100 * time.Millisecond) // phases do not begin with a second
	defer phases.Stop()
	var last [kinds]Seen
	was := -1
	for {
		now := time.Since(s.start)
		if phase := s.plan.phaseAt(now); phase != was {
			s.finishPhase(now, was)
			was = phase
			s.beginPhase(now, phase)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-phases.C:
		case c := <-s.events:
			s.printEvent(c)
		case <-tick.C:
			var seen, delta [kinds]Seen
			for k := range kinds {
				seen[k] = s.visitors.Seen(k)
				delta[k] = seen[k].Sub(last[k])
			}
			last = seen
			s.screen.printSecond(time.Since(s.start), delta[Quiet], delta[Viral], delta[Crawler], delta[Loop],
				s.watch.Hot())
			s.recordSecond(time.Since(s.start), delta[Viral])
			s.recordLimit(time.Since(s.start), s.local.Upstreams())
		}
	}
}

func (s *show) beginPhase(at time.Duration, phase int) {
	s.visitors.SetRate(Quiet, quietRate)
	s.visitors.SetRate(Crawler, crawlerRate)
	if isViral(phase) {
		s.visitors.SetRate(Viral, viralRate)
		s.visitors.SetRate(Loop, 0)
	} else {
		s.visitors.SetRate(Viral, 0)
		s.visitors.SetRate(Loop, loopRate)
	}
	if set := s.sets[phase]; set != nil {
		s.local.SetRules(set)
		s.watch.setNextWave(phase == served, len(set.AdaptiveUpstreams()) > 0)
	}
	s.site.setPageTime(quickPage)
	switch phase {
	case limited:
		s.screen.printNote(at, notice, "── topic %d goes viral: 60 %% of all traffic wants it ──", ViralTopic)
	case served:
		s.screen.printNote(at, notice, "── topic %d goes viral again, and its rule has cache: {ttl: 1s} now ──",
			ViralTopic)
	case adaptive:
		s.screen.printNote(at, notice, "── topic %d goes viral again, and its limit is adaptive now ──", ViralTopic)
	case slowed:
		s.site.setPageTime(slowPage)
		s.screen.printNote(at, notice, "── the site becomes slow: a page takes %d ms, not %d ──",
			slowPage.Milliseconds(), quickPage.Milliseconds())
	case between, pause, after:
		s.screen.printNote(at, notice, "── the readers move on ──")
	}
}

// finishPhase ends a phase. The requests of its readers are the result of a wave.
func (s *show) finishPhase(at time.Duration, phase int) {
	now := Readers{Seen: s.visitors.Seen(Viral), Seconds: at.Seconds(), Site: s.site.viral.Load()}
	if phase >= 0 && isViral(phase) {
		s.waves[phase] = Readers{now.Sub(s.phaseStart.Seen), now.Seconds - s.phaseStart.Seconds,
			now.Site - s.phaseStart.Site}
	}
	s.phaseStart = now
}

func (s *show) printEvent(c detect.Change) {
	at := time.Since(s.start)
	wave := s.watch.onChange(c)
	switch {
	case c.Kind == detect.BecameHot && wave != nil:
		held := "held to 100/s"
		if wave.Served {
			held = "answered from memory"
		} else if wave.Adaptive {
			held = "its limit follows the capacity of the site"
		}
		s.screen.printNote(at, bad, "▲ %s is hot: found %.0f ms after the request that reached the threshold; %s",
			c.Hot.Key, wave.FoundMS, held)
	case c.Kind == detect.BecameHot:
		s.screen.printNote(at, bad, "▲ %s is hot at %s", c.Hot.Key, c.Hot.Cost.FormatRate(c.Hot.Rate))
	case c.Kind == detect.LoopBegan:
		s.screen.printNote(at, notice,
			"↻ %s is a loop, not limited: %.0f %% of its %s are of %s, which meets its per-IP limit", c.Hot.Key,
			100*c.Hot.ClientShare, c.Hot.Cost.FormatRate(c.Hot.Rate), c.Hot.HeaviestClient)
	case c.Kind == detect.LoopEnded:
		s.screen.printNote(at, good, "↻ %s is not a loop any more", c.Hot.Key)
	default:
		s.screen.printNote(at, good, "▼ %s is cold again; no longer limited", c.Hot.Key)
	}
}

// serveSettings returns the settings of serve for a site on loopback.
func serveSettings(opts Options, site, state string) config.Serve {
	cfg := config.ServeDefaults()
	cfg.Proxy.Listen, cfg.Proxy.Upstream = opts.Listen, "http://"+site
	cfg.Admin.Listen = opts.Admin
	cfg.Proxy.MaxConnections, cfg.Admin.MaxConnections = 4*connections, connections // any machine has enough files
	cfg.State.Dir, cfg.Denials = state, opts.Denials
	return cfg
}
