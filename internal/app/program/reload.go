package program

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/textfile"
)

// maxRemoved is how many things that are gone a log line names.
const maxRemoved = 100

// Reloader reads the configuration file again when it changed or at SIGHUP and
// hands good rules to apply. A bad file changes nothing: what held goes on to
// hold, an error says what is wrong, and the metrics say that the last reload
// failed.
//
// Build it with NewReloader; Run once. The other methods may be called by any
// goroutine.
type Reloader struct {
	file  *config.Parser         // what is in force; Run's goroutine only
	rules *ruleFollower          // whose rules hold in place of the file's; nil: none
	check func(*rules.Set) error // what the rules do not know themselves; nil: nothing
	apply func(*rules.Set)
	// follow takes the settings that may change while the program runs: it checks
	// those of a new file, and returns what puts them in force; nil: none.
	follow func(next *config.Parser) (func(), error)
	log    *slog.Logger
	hup    chan os.Signal // taken from the start: a SIGHUP that comes before Run must not end the process
	calls  chan func()    // for Run to call

	mu    sync.Mutex // guards what follows
	stats metrics.ReloadStats
	why   string // of the failure; "" after a success
}

// NewReloader makes the reloader of a program that runs by file; nil: by no file. store has the rules that
// hold in place of the file's; nil: none.
func NewReloader(file *config.Parser, store *ruleFollower, check func(*rules.Set) error, apply func(*rules.Set),
	log *slog.Logger) *Reloader {
	r := &Reloader{file: file, rules: store, check: check, apply: apply, log: log, hup: make(chan os.Signal, 1),
		calls: make(chan func())}
	r.succeeded(time.Now())
	if r.hasFile() {
		signal.Notify(r.hup, syscall.SIGHUP)
	}
	if file != nil {
		r.warn(file.Warnings())
	}
	return r
}

func (r *Reloader) hasFile() bool { return r.file != nil && r.file.Path() != "" }

func (r *Reloader) Run(ctx context.Context) error {
	defer signal.Stop(r.hup)
	var looks <-chan time.Time // never, without a file
	if r.hasFile() {
		tick := time.NewTicker(textfile.Look)
		defer tick.Stop()
		looks = tick.C
	}
	var w textfile.Watch
	asked := false // a caller wants it read although it may be the same
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-r.rules.next():
			r.applyUpdate(s)
		case call := <-r.calls:
			call()
		case <-r.hup:
			asked = true
			w.Ask(time.Now())
		case <-looks:
			if r.checkFile(&w, time.Now(), asked) {
				asked = false
			}
		}
	}
}

// applyUpdate takes a revision from the store, all of it or nothing.
func (r *Reloader) applyUpdate(s *rules.Stored) {
	next, set, err := r.rules.checked(r.file, s.Revision, r.check)
	if err == nil {
		r.install(next, set, func() { r.rules.recordApplied(s, nil) })
		return
	}
	r.rules.recordApplied(s, err)
	r.log.Error("rules not changed, those from before hold: the new ones are rejected", "store", r.rules.name,
		"version", s.Version, "err", err)
}

// validate gives the rules that this program would run by a revision. Any goroutine may call it while Run runs.
func (r *Reloader) validate(ctx context.Context, revision rules.Revision) (set *rules.Set, err error) {
	done := make(chan struct{})
	select {
	case r.calls <- func() {
		_, set, err = r.rules.checked(r.file, revision, r.check)
		close(done)
	}:
		<-done
		return set, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// checkFile reads the file if it is to be read, and reports whether it did. One whose
// bytes are in force is passed over unless it was asked for.
func (r *Reloader) checkFile(w *textfile.Watch, now time.Time, asked bool) bool {
	path := r.file.Path()
	info, _ := os.Stat(path) // a file that is gone is nil, and an error when it is read
	if !w.Settled(now, info) {
		if w.StillChanging(now) {
			r.failed(fmt.Errorf("%s keeps changing (for %v); it is read after %v without a change", path,
				textfile.SettleTimeout, textfile.Settle))
		}
		return false
	}
	data, err := textfile.Read(path)
	if after, _ := os.Stat(path); !textfile.Same(info, after) {
		return false // written meanwhile; the next look sees that it changed
	}
	w.Done()
	if err != nil {
		r.failed(fmt.Errorf("cannot be read: %w; put it back", err))
		return true
	}
	if !asked && r.inForce(data) {
		return true
	}
	if err := r.load(data, now); err != nil {
		r.failed(err)
	}
	return true
}

// inForce reports whether these bytes hold already, and no failure is to be
// taken back.
func (r *Reloader) inForce(data []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why == "" && string(data) == string(r.file.Data())
}

// load applies what the file holds now, all of it or nothing.
func (r *Reloader) load(data []byte, now time.Time) error {
	next, err := r.file.With(data)
	if err != nil {
		return err
	}
	set, restart, err := tried(r.file, next, r.check)
	if err != nil {
		return err
	}
	if len(restart) > 0 {
		return fmt.Errorf("%s: changed and cannot take effect while the program runs: %s; restart it, or take the "+
			"change back. Nothing of the new file holds", r.file.Path(), strings.Join(restart, ", "))
	}
	settle := func() {}
	if r.follow != nil {
		if settle, err = r.follow(next); err != nil {
			return err
		}
	}
	r.install(next, set, func() {
		settle()
		r.succeeded(now)
	})
	return nil
}

// tried gives the rules of next, checked, and the settings that cannot change while a program runs by file.
func tried(file, next *config.Parser, check func(*rules.Set) error) (set *rules.Set, restart []string, err error) {
	if set, err = next.RulesToRun(); err != nil {
		return nil, nil, err
	}
	if restart, err = file.NeedRestart(next); err != nil || len(restart) > 0 || check == nil {
		return set, restart, err
	}
	return set, nil, check(set)
}

// install makes what was checked hold, and then calls settle for the settings that came with it and for the metrics. It
// logs last, because whoever reads the line expects the metrics to agree with it.
func (r *Reloader) install(next *config.Parser, set *rules.Set, settle func()) {
	removed, path := r.file.Removed(next), next.RulesFrom()
	r.warn(slices.DeleteFunc(next.Warnings(), func(w string) bool { return slices.Contains(r.file.Warnings(), w) }))
	r.apply(set)
	r.file = next
	settle()
	if n := len(removed); n > 0 {
		r.log.Warn("the new configuration removes settings", "file", path,
			"count", n, "removed", strings.Join(removed[:min(n, maxRemoved)], ", "))
	}
	r.log.Info("configuration read again", "file", path, "rules", len(set.Rules))
}

func (r *Reloader) warn(warnings []string) {
	for _, w := range warnings {
		r.log.Warn(w)
	}
}

func (r *Reloader) failed(err error) {
	r.mu.Lock()
	r.why, r.stats.Success = err.Error(), false
	r.mu.Unlock()
	r.log.Error("configuration not changed, the rules from before hold: the new one is rejected", "file", r.file.Path(),
		"err", err)
}

func (r *Reloader) succeeded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = ""
	r.stats = metrics.ReloadStats{Success: true, Timestamp: now.Unix()}
	if r.hasFile() {
		sum := sha256.Sum256(r.file.Data())
		r.stats.Hash = int64(binary.BigEndian.Uint64(sum[:8]) >> 16)
	}
}

func (r *Reloader) Stats() metrics.ReloadStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.stats
	st.Success = st.Success && !r.rules.isRejected()
	return st
}

// FillReport records in a report the version of the rules that run.
func (r *Reloader) FillReport(to *report.Limiter) {
	to.RulesVersion, to.RejectedRulesVersion = r.rules.versions()
}

// FillAggregatorReport records in a report the version of the rules that run.
func (r *Reloader) FillAggregatorReport(to *report.Aggregator) {
	to.RulesVersion, to.RejectedRulesVersion = r.rules.versions()
}

// AddTo runs the reloader, and the follower of a store if the program has one.
func (r *Reloader) AddTo(s *lifecycle.Stages) {
	s.Add(lifecycle.Sinks, "reload", r.Run)
	if r.rules != nil {
		s.Add(lifecycle.Sinks, "rules", r.rules.Run)
	}
}

// Metrics returns the collectors of the reloader and of the follower of a store.
func (r *Reloader) Metrics() []metrics.Collector {
	parts := []metrics.Collector{metrics.Of(r.Stats)}
	if r.rules != nil {
		parts = append(parts, metrics.Of(r.rules.stats))
	}
	return parts
}
