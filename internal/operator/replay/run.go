// Package replay runs request logs through the pipeline and reports which keys would have been hot and which requests
// would have been denied.
//
//	log ──> lines ──> accesslog ─┐
//	log ──> lines ──> accesslog ─┼─> order ──> one second at a time ──> gate.Gate, with limits in memory
//	log ──> lines ──> accesslog ─┘   by log time                 └────> detect.Detector ──> hotset.Replica
//
// It drives the same gate and detector as production, with the log's own time as their clock, in one goroutine; a
// second goroutine reads ahead. So the report depends only on the rules and on the set of lines in the logs: not on the
// machine, on the speed, on the order of the files, or on the order of lines as long as they are at most
// Config.Lateness behind other lines of the same file.
//
// Most logs have whole seconds. If no request of a second has a finer time, the i-th of its n requests is taken to
// happen i/n into the second, in the order of a fixed hash of their content: equal requests are spread over the second,
// and the order in which a server wrote its lines has no influence. Each request is decided first and then counted.
// Keys are judged and published ten times a second, at whole tenths, as an aggregator does; a tenth at which nothing
// can have changed is skipped, which does not change the report.
//
// No error in a log is fatal and no loss is silent: malformed lines, late lines, and requests beyond a bound are
// counted in the report.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

// Run reads all sources to their end and reports. Sources are merged by time, so that rotated files may come in any
// order, and the files of several servers are judged together.
//
// If a source cannot be read to its end, Run returns an error and a report of all lines that could be read. If ctx
// ends, the report covers the requests judged so far. If cfg is invalid, the report is nil.
func Run(ctx context.Context, cfg Config, logs ...Source) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return newEngine(cfg).run(ctx, cfg, logs)
}

// run replays the logs through the engine. The gate lets a request pass if deciding about it panics. A report with such
// requests is wrong, so that run returns an error.
func (e *engine) run(ctx context.Context, cfg Config, logs []Source) (*Report, error) {
	r := newReplayer(cfg, e)
	r.keepAgent, r.keepReferer = headersOf(cfg.Rules)
	rep, err := r.run(ctx, logs)
	if n := e.gate.Stats().Panics; n > 0 {
		err = errors.Join(err, fmt.Errorf("replay: deciding panicked %d times, and the report has these requests as allowed: "+
			"please report it", n))
	}
	return rep, err
}

func (r *replayer) run(ctx context.Context, logs []Source) (*Report, error) {
	for _, l := range logs {
		r.open(l)
	}
	err := r.read(ctx)
	rep := r.handler.report()
	r.addReadNumbers(&rep)
	if err != nil {
		return rep.replaceNilLists(), err
	}
	return rep.replaceNilLists(), errors.Join(r.errs...)
}

// secondHandler handles the requests of one second after the other.
type secondHandler interface {
	handleSecond(context.Context, *bucket)
	report() Report // on all seconds that were handled; it ends the replay
}

func newReplayer(cfg Config, j secondHandler) *replayer {
	return &replayer{
		cfg: cfg, order: newOrder(cfg.MaxBuffer), handler: j,
		lateness: int64((cfg.Lateness + time.Second - 1) / time.Second), pace: pace{speed: cfg.Speed},
	}
}

type replayer struct {
	cfg      Config
	sources  []*source
	origins  []SourceReport // parallel to sources
	order    *order
	handler  secondHandler
	pace     pace
	lateness int64

	// keepAgent and keepReferer are true if rules read the header. Other headers are not kept.
	keepAgent, keepReferer bool

	lines  int64
	broken []BrokenLine
	errs   []error
	entry  accesslog.Entry
}

func headersOf(set *rules.Set) (agent, referer bool) {
	note := func(name string) {
		agent = agent || strings.EqualFold(name, "User-Agent")
		referer = referer || strings.EqualFold(name, "Referer")
	}
	for _, c := range set.Classes {
		note(c.Header)
	}
	for _, r := range set.Rules {
		for _, p := range r.Params {
			if name, ok := strings.CutPrefix(p.Name, "header."); ok {
				note(name)
			}
		}
	}
	return agent, referer
}

// open adds a source. A source that cannot be opened counts as ended.
func (r *replayer) open(l Source) {
	src, err := open(l, accesslog.Config{Format: r.cfg.Format, TrustedProxies: r.cfg.Rules.IP.TrustedProxies})
	origin := SourceReport{Name: l.Name}
	if err != nil {
		src = &source{name: l.Name, raw: &countingReader{}, done: true}
		origin.Error = err.Error()
		r.errs = append(r.errs, err)
	} else {
		origin.Format = src.parser.Format()
	}
	r.sources, r.origins = append(r.sources, src), append(r.origins, origin)
}

func (r *replayer) readBlock(i int) {
	src := r.sources[i]
	for {
		text, err := src.next()
		switch {
		case src.done:
			r.recordReadError(i, err)
			return
		case err != nil:
			r.lines++
			r.recordMalformed(i, err)
		default:
			r.addLine(i, text)
		}
		if !src.hasBuffered() {
			return
		}
	}
}

func (r *replayer) addLine(i int, text string) {
	e, src := &r.entry, r.sources[i]
	err := src.parser.Parse(text, e)
	if errors.Is(err, accesslog.ErrSkip) {
		return
	}
	r.lines++
	if err != nil {
		r.recordMalformed(i, err)
		return
	}
	src.pos.add(e.Second)
	r.origins[i].addSecond(e.Second)
	var kept accesslog.Header
	if r.keepAgent {
		kept.UserAgent = e.Request.Header.Get("User-Agent")
	}
	if r.keepReferer {
		kept.Referer = e.Request.Header.Get("Referer")
	}
	r.order.add(e, &kept)
}

const maxBroken = 10

func (r *replayer) recordMalformed(i int, err error) {
	src, text := r.sources[i], strings.TrimPrefix(err.Error(), "accesslog: ")
	reason := text
	if bad := (*accesslog.Error)(nil); errors.As(err, &bad) {
		reason = bad.Reason
	}
	r.origins[i].Malformed++
	src.refused.add(reason, src.line, text)
	if len(r.broken) < maxBroken {
		r.broken = append(r.broken, BrokenLine{Source: src.name, Line: src.line, Reason: text})
	}
}

func (r *replayer) recordReadError(i int, err error) {
	if errors.Is(err, io.EOF) {
		return
	}
	src := r.sources[i]
	err = fmt.Errorf("replay: %s: reading after line %d: %w; the report holds the lines before", src.name, src.line, err)
	r.origins[i].Error = err.Error()
	r.errs = append(r.errs, err)
}

func (r *replayer) handlePiece(ctx context.Context, p piece) error {
	for _, b := range p.seconds {
		if err := r.pace.wait(ctx, b.second); err != nil {
			return err
		}
		r.handler.handleSecond(ctx, b)
		r.order.recycleBucket(b)
		if r.cfg.Speed > 0 {
			r.reportProgress(p.read)
		}
	}
	r.reportProgress(p.read)
	return ctx.Err()
}

func (r *replayer) reportProgress(bytes int64) {
	if r.cfg.Progress != nil {
		r.cfg.Progress(bytes)
	}
}

// pace replays the log at a speed, measured from the first second of the log.
type pace struct {
	speed  float64 // 0 if replay does not wait
	began  time.Time
	second int64 // of the log at began
}

// wait returns when it is time to replay a second of the log.
func (p *pace) wait(ctx context.Context, second int64) error {
	if p.speed == 0 {
		return ctx.Err()
	}
	if p.began.IsZero() {
		p.began, p.second = time.Now(), second
	}
	passed := float64(second-p.second) / p.speed * float64(time.Second)
	wait.For(ctx, time.Until(p.began.Add(time.Duration(min(passed, math.MaxInt64/2)))))
	return ctx.Err()
}
