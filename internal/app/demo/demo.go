package demo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/run"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

// Rules is the configuration of the demo as a file.
//
//go:embed demo.yaml
var Rules []byte

// withServe is the rules of the second wave: what is hot is answered from memory.
func withServe(file []byte) []byte {
	const limit = "limit: {algorithm: token_bucket, rate: 100, burst: 100}\n"
	return bytes.Replace(file, []byte(limit), []byte(limit+"    serve: {ttl: 1s}\n"), 1)
}

// Options say how the demo is shown.
type Options struct {
	// Duration; 0 means until interrupted.
	Duration time.Duration
	Topics   int
	// Listen and Admin are the addresses of proxy and dashboard; an empty
	// Admin means no dashboard.
	Listen, Admin string
	// JSON is a file for the result, "" for none.
	JSON    string
	Out     io.Writer
	Color   bool
	Version string
	Log     *slog.Logger
}

// Result is what the demo has shown; --json writes it.
type Result struct {
	DurationSeconds float64 `json:"duration_s"`
	Groups          struct {
		Quiet   Seen `json:"quiet"`
		Viral   Seen `json:"viral"`
		Crawler Seen `json:"crawler"`
		Loop    Seen `json:"loop"`
	} `json:"groups"`
	// QuietAnswered is the share of requests for other topics that got their
	// page, in percent.
	QuietAnswered float64 `json:"quiet_answered_percent"`
	Waves         []Wave  `json:"waves"`
	// Limited and Served are what became of the viral topic's readers in the first wave and
	// in the second.
	Limited Readers `json:"limited"`
	Served  Readers `json:"served"`
	// Behind counts requests that this machine was too slow to send.
	Behind uint64         `json:"behind"`
	Report hottype.Report `json:"report"`
}

// Readers is what became of the viral topic's readers in a wave.
type Readers struct {
	Seen
	// Seconds that it lasted, and Site how many of the requests reached the site.
	Seconds float64 `json:"seconds"`
	Site    uint64  `json:"site"`
}

// show is one running demo.
type show struct {
	opts     Options
	plan     plan
	local    *run.Local
	visitors *Visitors
	watch    *watcher
	screen   *screen
	start    time.Time
	events   chan detect.Change
	set      *rules.Set    // of the first wave
	cached   *rules.Set    // of the second: the same, with serve
	site     atomic.Uint64 // requests for the viral topic that reached it

	had   Readers // before the phase; tell's, like what follows
	waves map[int]Readers
}

// Run shows the demo until its duration is over or ctx ends.
func Run(ctx context.Context, opts Options) error {
	set, err := rules.Parse("demo.yaml", Rules)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "hotparam-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(state)
	s := &show{set: set, waves: map[int]Readers{}, opts: opts, plan: newPlan(opts.Duration), screen: &screen{opts.Out, opts.Color}, events: make(chan detect.Change, 64)}
	if s.cached, err = rules.Parse("demo.yaml", withServe(Rules)); err != nil {
		return err
	}
	site, err := openSite(ctx, &s.site)
	if err != nil {
		return err
	}
	defer site.Close()
	rule := set.RuleFor("topic")
	s.watch = newWatcher(hottype.NewKey("topic", fmt.Sprintf("id=%d", ViralTopic)),
		rule.Hot.Threshold(), rule.Hot.Window, float64(rule.Limit.Spec.Limit), float64(rule.Limit.Spec.Burst))
	if s.local, err = run.NewLocal(ctx, settings(opts, site.Addr, state), set, run.LocalOptions{
		Version: opts.Version, OnChange: s.changed, Log: opts.Log,
	}); err != nil {
		return err
	}
	s.visitors = NewVisitors([]string{"http://" + s.local.Addr()}, opts.Topics, 1)
	s.visitors.onSend, s.visitors.onDone = s.watch.onSend, s.watch.onDone
	return s.run(ctx)
}

// run plays the plan. The pipeline stops last, so that the visitors' last
// requests are answered.
func (s *show) run(ctx context.Context) error {
	pipeline, stopPipeline := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPipeline()
	served := make(chan error, 1)
	go func() { served <- s.local.Run(pipeline) }()

	dashboard := ""
	if addr := s.local.AdminAddr(); addr != "" {
		dashboard = "http://" + addr + "/"
	}
	s.screen.head(s.opts.Topics, "http://"+s.local.Addr()+"/topic?id=1", dashboard, s.plan)
	s.start = time.Now()
	if s.opts.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.Duration)
		defer cancel()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.visitors.Run(ctx) })
	group.Go(func() error { return s.tell(ctx) })
	err := group.Wait()
	s.leave(time.Since(s.start), s.plan.phase(time.Since(s.start)))
	result := s.result()
	stopPipeline()
	if served := <-served; err == nil {
		err = served
	}
	s.screen.result(result)
	if err == nil && s.opts.JSON != "" {
		err = writeJSON(s.opts.JSON, result)
	}
	return err
}

// changed is called by the aggregator and must not wait for a slow terminal.
func (s *show) changed(changes []detect.Change) {
	for _, c := range changes {
		select {
		case s.events <- c:
		default: // the picture misses a line; the dashboard has it
		}
	}
}

// tell writes the story until ctx ends.
func (s *show) tell(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last [kinds]Seen
	was := -1
	for {
		now := time.Since(s.start)
		if phase := s.plan.phase(now); phase != was {
			s.leave(now, was)
			was = phase
			s.enter(now, phase)
		}
		select {
		case <-ctx.Done():
			return nil
		case c := <-s.events:
			s.event(c)
		case <-tick.C:
			var seen, delta [kinds]Seen
			for k := range kinds {
				seen[k] = s.visitors.Seen(k)
				delta[k] = seen[k].Sub(last[k])
			}
			last = seen
			s.screen.second(time.Since(s.start), delta[Quiet], delta[Viral], delta[Crawler], delta[Loop], s.watch.Hot())
		}
	}
}

// enter begins a phase of the plan.
func (s *show) enter(at time.Duration, phase int) {
	s.visitors.SetRate(Quiet, quietRate)
	s.visitors.SetRate(Crawler, crawlerRate)
	wave, viral, loop := phase%2 == 1, int64(0), int64(loopRate)
	if wave {
		viral, loop = viralRate, 0
		s.local.SetRules(map[bool]*rules.Set{false: s.set, true: s.cached}[phase == served])
		s.watch.serves(phase == served)
	}
	s.visitors.SetRate(Viral, viral)
	s.visitors.SetRate(Loop, loop)
	switch phase {
	case limited:
		s.screen.note(at, notice, "── topic %d goes viral: 60 %% of all traffic wants it ──", ViralTopic)
	case served:
		s.screen.note(at, notice, "── topic %d goes viral again, and its rule has serve: {ttl: 1s} now ──", ViralTopic)
	case between, after:
		s.screen.note(at, notice, "── the readers move on ──")
	}
}

// leave ends a phase: what its readers got is that of a wave.
func (s *show) leave(at time.Duration, phase int) {
	now := Readers{Seen: s.visitors.Seen(Viral), Seconds: at.Seconds(), Site: s.site.Load()}
	if phase == limited || phase == served {
		s.waves[phase] = Readers{now.Sub(s.had.Seen), now.Seconds - s.had.Seconds, now.Site - s.had.Site}
	}
	s.had = now
}

func (s *show) event(c detect.Change) {
	at := time.Since(s.start)
	wave := s.watch.onChange(c)
	switch {
	case c.Kind == detect.Became && wave != nil:
		held := "held to 100/s"
		if wave.Served {
			held = "answered from memory"
		}
		s.screen.note(at, bad, "▲ %s is hot: found %.0f ms after the request that reached the threshold; %s", c.Hot.Key, wave.FoundMS, held)
	case c.Kind == detect.Became:
		s.screen.note(at, bad, "▲ %s is hot at %.0f/s", c.Hot.Key, c.Hot.Rate)
	case c.Kind == detect.Looped:
		s.screen.note(at, notice, "↻ %s is a loop, not limited: %.0f %% of its %.0f/s are of %s, which meets its per-IP limit", c.Hot.Key, 100*c.Hot.ClientShare, c.Hot.Rate, c.Hot.Client)
	case c.Kind == detect.Ceased:
		s.screen.note(at, good, "↻ %s is no loop any more", c.Hot.Key)
	default:
		s.screen.note(at, good, "▼ %s is cold again; no longer limited", c.Hot.Key)
	}
}

func (s *show) result() Result {
	r := Result{DurationSeconds: time.Since(s.start).Seconds(), Waves: s.watch.Waves(), Behind: s.visitors.Behind.Load(), Report: s.local.Report()}
	r.Groups.Quiet, r.Groups.Viral, r.Groups.Crawler = s.visitors.Seen(Quiet), s.visitors.Seen(Viral), s.visitors.Seen(Crawler)
	r.Groups.Loop = s.visitors.Seen(Loop)
	r.Limited, r.Served = s.waves[limited], s.waves[served]
	r.QuietAnswered = 100
	if n := r.Groups.Quiet.Total(); n > 0 {
		r.QuietAnswered = 100 * float64(r.Groups.Quiet.OK) / float64(n)
	}
	return r
}

// settings are serve's, for a loopback of our own.
func settings(opts Options, site, state string) config.Serve {
	cfg := config.ServeDefaults()
	cfg.Proxy.Listen, cfg.Proxy.Upstream = opts.Listen, "http://"+site
	cfg.Admin.Listen = opts.Admin
	cfg.State.Dir = state
	return cfg
}

func writeJSON(path string, r Result) error {
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("demo: --json: %w", err)
	}
	return nil
}
