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

// maxRemoved is the maximum number of removed settings that a log line names.
const maxRemoved = 100

// Reloader reads the configuration file again when the file has changed or at SIGHUP, and passes valid rules to apply.
// An invalid file changes nothing: the old settings stay in force, an error names the mistake, and the metrics report
// that the last reload failed.
//
// Build a Reloader with NewReloader and call Run once. The other methods may be called by any goroutine.
type Reloader struct {
	file  *config.Parser         // the file in force; for Run's goroutine only
	rules *ruleFollower          // has the rules in place of the file's; may be nil
	check func(*rules.Set) error // checks the rules against the rest of the program; may be nil
	apply func(*rules.Set)
	// checkSettings checks the settings of a new file that may change while the program runs, and returns a function
	// that puts them in force. It is nil if there are no such settings.
	checkSettings func(next *config.Parser) (func(), error)
	log           *slog.Logger
	hup           chan os.Signal // taken from the start: a SIGHUP before Run must not end the process
	calls         chan func()    // functions for Run to call

	mu          sync.Mutex // guards the fields below
	stats       metrics.ReloadStats
	lastFailure string // reason of the last failure; "" after a success
}

// NewReloader returns the reloader of a program that is configured by file, or by no file if file is nil. The rules of
// store are in force in place of the file's, unless store is nil.
func NewReloader(file *config.Parser, store *ruleFollower, check func(*rules.Set) error, apply func(*rules.Set),
	log *slog.Logger) *Reloader {
	r := &Reloader{file: file, rules: store, check: check, apply: apply, log: log, hup: make(chan os.Signal, 1),
		calls: make(chan func())}
	r.recordSuccess(time.Now())
	if r.hasFile() {
		signal.Notify(r.hup, syscall.SIGHUP)
	}
	if file != nil {
		r.logWarnings(file.Warnings())
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
	asked := false // SIGHUP asks for a read even of an unchanged file
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

// applyUpdate applies a revision from the store, all of it or nothing.
func (r *Reloader) applyUpdate(s *rules.Stored) {
	next, set, err := r.rules.checkRevision(r.file, s.Revision, r.check)
	if err == nil {
		r.applyRules(next, set, func() { r.rules.recordApplied(s, nil) })
		return
	}
	r.rules.recordApplied(s, err)
	r.log.Error("rules not changed, those from before hold: the new ones are rejected", "store", r.rules.name,
		"version", s.Version, "err", err)
}

// validate returns the rules with which this program would run a revision. Any goroutine may call it while Run runs.
func (r *Reloader) validate(ctx context.Context, revision rules.Revision) (set *rules.Set, err error) {
	done := make(chan struct{})
	select {
	case r.calls <- func() {
		_, set, err = r.rules.checkRevision(r.file, revision, r.check)
		close(done)
	}:
		<-done
		return set, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// checkFile reads the file if it has changed or was asked for, and reports whether it did. A file whose bytes are in
// force already is not applied again unless asked is true.
func (r *Reloader) checkFile(w *textfile.Watch, now time.Time, asked bool) bool {
	path := r.file.Path()
	info, _ := os.Stat(path) // info of a removed file is nil; reading reports the error
	if !w.Settled(now, info) {
		if w.StillChanging(now) {
			r.recordFailure(fmt.Errorf("%s keeps changing (for %v); it is read after %v without a change", path,
				textfile.SettleTimeout, textfile.Settle))
		}
		return false
	}
	data, err := textfile.Read(path)
	if after, _ := os.Stat(path); !textfile.Same(info, after) {
		return false // written meanwhile; the next check finds the change
	}
	w.Done()
	if err != nil {
		r.recordFailure(fmt.Errorf("cannot be read: %w; put it back", err))
		return true
	}
	if !asked && r.hasApplied(data) {
		return true
	}
	if err := r.loadFile(data, now); err != nil {
		r.recordFailure(err)
	}
	return true
}

// hasApplied reports whether data is the configuration that was applied last, and no failure is left to clear.
func (r *Reloader) hasApplied(data []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastFailure == "" && string(data) == string(r.file.Data())
}

// loadFile applies the contents of the file, all of them or nothing.
func (r *Reloader) loadFile(data []byte, now time.Time) error {
	next, err := r.file.With(data)
	if err != nil {
		return err
	}
	set, restart, err := checkReload(r.file, next, r.check)
	if err != nil {
		return err
	}
	if len(restart) > 0 {
		return fmt.Errorf("%s: changed and cannot take effect while the program runs: %s; restart it, or take the "+
			"change back. Nothing of the new file holds", r.file.Path(), strings.Join(restart, ", "))
	}
	settle := func() {}
	if r.checkSettings != nil {
		if settle, err = r.checkSettings(next); err != nil {
			return err
		}
	}
	r.applyRules(next, set, func() {
		settle()
		r.recordSuccess(now)
	})
	return nil
}

// checkReload returns the checked rules of next, and the settings that cannot change while a program runs with file.
func checkReload(file, next *config.Parser,
	check func(*rules.Set) error) (set *rules.Set, restart []string, err error) {
	if set, err = next.RulesToRun(); err != nil {
		return nil, nil, err
	}
	if restart, err = file.NeedRestart(next); err != nil || len(restart) > 0 || check == nil {
		return set, restart, err
	}
	return set, nil, check(set)
}

// applyRules puts checked rules in force, and then calls settle for the settings that came with them and for the
// metrics. It logs last, because a reader of the line expects the metrics to agree with it.
func (r *Reloader) applyRules(next *config.Parser, set *rules.Set, settle func()) {
	removed, path := r.file.Removed(next), next.RulesFrom()
	r.logWarnings(slices.DeleteFunc(next.Warnings(),
		func(w string) bool { return slices.Contains(r.file.Warnings(), w) }))
	r.apply(set)
	r.file = next
	settle()
	if n := len(removed); n > 0 {
		r.log.Warn("the new configuration removes settings", "file", path,
			"count", n, "removed", strings.Join(removed[:min(n, maxRemoved)], ", "))
	}
	r.log.Info("configuration read again", "file", path, "rules", len(set.Rules))
}

func (r *Reloader) logWarnings(warnings []string) {
	for _, w := range warnings {
		r.log.Warn(w)
	}
}

func (r *Reloader) recordFailure(err error) {
	r.mu.Lock()
	r.lastFailure, r.stats.Success = err.Error(), false
	r.mu.Unlock()
	r.log.Error("configuration not changed, the rules from before hold: the new one is rejected", "file", r.file.Path(),
		"err", err)
}

func (r *Reloader) recordSuccess(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastFailure = ""
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
	to.RulesVersion, to.RejectedRulesVersion = r.rules.ruleVersions()
}

// FillAggregatorReport records in a report the version of the rules that run.
func (r *Reloader) FillAggregatorReport(to *report.Aggregator) {
	to.RulesVersion, to.RejectedRulesVersion = r.rules.ruleVersions()
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
		parts = append(parts, metrics.Of(r.rules.ruleStats))
	}
	return parts
}
