package requestlog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

const (
	maxDenials = 1024 // lines that wait for the writer
	// maxField bounds the bytes of the host and of the client's name, and maxKey those of a key, of which only the
	// resource is written if it is longer.
	maxField = 256
	maxKey   = 1 << 10
	// look is the interval at which the name of the file is compared with the open file, and at which denials without a
	// line are counted in a line.
	look = time.Second
	// stopWait is the time for which the end of Run waits for a reader of a pipe.
	stopWait = time.Second
)

var deniedTarget = targetBounds{2 << 10, 1 << 10}

// NoMaximum is the Rate of a log with a line for each denial.
const NoMaximum = -1

// DenialsConfig holds the settings of a log of denials. To, Form and Log are required.
type DenialsConfig struct {
	// To is stdout, stderr, or the path of a file, to which lines are appended.
	To   string
	Form accesslog.DenialForm
	// Rate is the maximum number of lines in a second, at least 1, or NoMaximum.
	Rate int
	// Reopen makes Run open the file again; nil means that Run opens it only after it was moved or removed.
	Reopen <-chan os.Signal
	Log    *slog.Logger
	Now    func() time.Time // the clock of lines that count lines; nil means time.Now
}

// DenialStats counts the denials since the start of the log.
type DenialStats struct {
	Written uint64 `metric:"hotparam_denials_logged_total" help:"Denials that are in the log of denials."`
	LeftOut uint64 `metric:"hotparam_denials_left_out_total" help:"Denials that are not in the log of denials because of denials.rate."`
	Lost    uint64 `metric:"hotparam_denials_lost_total" help:"Denials that are not in the log of denials because it could not be written, or not fast enough."`
}

// Denials writes a line for each denial, while Run runs. Any number of goroutines may call Record and Stats, but Run
// only once.
type Denials struct {
	cfg      DenialsConfig
	queue    queue
	admitted atomic.Uint64 // unix second, and in the lower 32 bits the number of lines that were admitted in it

	written, leftOut, failed atomic.Uint64

	// The fields below are for the goroutine that writes.
	to   sink
	told uint64 // denials without a line that a line has counted
}

// OpenDenials opens the log. The caller runs it, or closes it.
func OpenDenials(cfg DenialsConfig) (*Denials, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Denials{cfg: cfg, queue: queue{lines: make(chan []byte, maxDenials)}, to: sink{name: cfg.To, log: cfg.Log}}
	if err := l.to.open(); err != nil {
		return nil, fmt.Errorf("requestlog: the log of denials cannot be opened: %w", err)
	}
	return l, nil
}

// Close closes a log that is not run.
func (l *Denials) Close() { l.to.close() }

func (l *Denials) Stats() DenialStats {
	return DenialStats{Written: l.written.Load(), LeftOut: l.leftOut.Load(),
		Lost: l.queue.dropped.Load() + l.failed.Load()}
}

// Record queues the line of a denial. It does not block, and keeps nothing of the request.
func (l *Denials) Record(d gate.Denial) {
	if !l.admitLine(d.At.Unix()) {
		l.leftOut.Add(1)
		return
	}
	line := accesslog.Denial{At: d.At, Client: d.Client, Shadow: d.Shadow, Reason: d.Reason.String(), Rule: d.Rule,
		Class: d.Class, Key: writtenKey(d.Key), Limit: d.Limit, Retry: d.Retry}
	line.Client.Name = cutField(line.Client.Name)
	if d.Request != nil {
		line.Method, line.Host = cutField(d.Request.Method), cutField(d.Request.Host)
		line.Target = deniedTarget.writtenTarget(d.Rules, d.Request)
	}
	l.queue.put(l.cfg.Form.Append(nil, &line))
}

// admitLine reports whether the rate admits one more line in a second. Requests of the second before, which come late,
// count in the current second.
func (l *Denials) admitLine(second int64) bool {
	for l.cfg.Rate != NoMaximum {
		old := l.admitted.Load()
		current, n := int64(old>>32), old&(1<<32-1)
		if second > current || second < current-1 { // or the clock was set back
			current, n = second, 0
		}
		if n >= uint64(l.cfg.Rate) {
			return false
		}
		if l.admitted.CompareAndSwap(old, uint64(current)<<32|(n+1)) {
			break
		}
	}
	return true
}

func cutField(s string) string { return s[:min(len(s), maxField)] }

func writtenKey(key hottype.Key) string {
	if len(key) <= maxKey {
		return string(key)
	}
	resource := key.Resource()
	return resource[:min(len(resource), maxKey)]
}

// Run writes until ctx ends. The end does not wait for a reader of a pipe that does not read.
func (l *Denials) Run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.writeLines(ctx)
	}()
	<-ctx.Done()
	wait := time.NewTimer(stopWait)
	defer wait.Stop()
	select {
	case <-ended:
	case <-wait.C:
		l.cfg.Log.Warn("denials: the log takes no more lines; the last ones are lost", "file", l.cfg.To)
	}
	return nil
}

func (l *Denials) writeLines(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case line := <-l.queue.lines:
			l.writeLine(line)
		case <-l.cfg.Reopen:
			l.to.reopen()
		case <-tick.C:
			if l.to.wasMoved() {
				l.to.reopen()
			}
			l.countMissing()
		case <-ctx.Done():
			for n := len(l.queue.lines); n > 0; n-- {
				l.writeLine(<-l.queue.lines)
			}
			l.countMissing()
			l.to.close()
			return
		}
	}
}

func (l *Denials) writeLine(line []byte) {
	if l.to.write(line) {
		l.written.Add(1)
	} else {
		l.failed.Add(1)
	}
}

// countMissing writes a line that counts the denials that have no line, if there are new ones.
func (l *Denials) countMissing() {
	st := l.Stats()
	missing := st.LeftOut + st.Lost
	if missing > l.told && l.to.write(l.cfg.Form.AppendLeftOut(nil, l.cfg.Now(), missing-l.told)) {
		l.told = missing
	}
}
