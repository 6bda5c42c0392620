package run

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
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// fileLook is how often the file is looked at. A look is one stat; it also finds
	// what notices of the kernel do not tell: a link to elsewhere whose target
	// changed, a file on a network, a directory that was replaced.
	fileLook = 250 * time.Millisecond
	// fileStill is how long a file must not have changed before it is read: editors
	// and deployments write in several steps.
	fileStill = time.Second
	// filePatience is how long a file may go on changing before that is an error.
	filePatience = 30 * time.Second
	// maxRemoved is how many things that are gone a log line names.
	maxRemoved = 100
)

// reloader reads the configuration file again when it changed or at SIGHUP and
// hands good rules to apply. A bad file changes nothing: what held goes on to
// hold, an error says what is wrong, and the metrics say that the last reload
// failed.
//
// Build it with newReloader; Run once. The other methods may be called by any
// goroutine.
type reloader struct {
	file  *config.Parser         // what is in force; Run's goroutine only
	check func(*rules.Set) error // what the rules do not know themselves; nil: nothing
	apply func(*rules.Set)
	// follow takes the settings that may change while the program runs: it checks
	// those of a new file, and returns what puts them in force; nil: none.
	follow func(next *config.Parser) (func(), error)
	log    *slog.Logger
	hup    chan os.Signal // taken from the start: a SIGHUP that comes before Run must not end the process

	mu    sync.Mutex // guards what follows
	stats metrics.ReloadStats
	why   string // of the failure; "" after a success
}

// newReloader makes the reloader of a program that runs by file; nil: by no file.
func newReloader(file *config.Parser, check func(*rules.Set) error, apply func(*rules.Set), log *slog.Logger) *reloader {
	r := &reloader{file: file, check: check, apply: apply, log: log, hup: make(chan os.Signal, 1)}
	r.succeeded(time.Now())
	if r.hasFile() {
		signal.Notify(r.hup, syscall.SIGHUP)
	}
	if file != nil {
		r.warn(file.Warnings())
	}
	return r
}

func (r *reloader) hasFile() bool { return r.file != nil && r.file.Path() != "" }

// Run watches until ctx ends.
func (r *reloader) Run(ctx context.Context) error {
	if !r.hasFile() {
		<-ctx.Done()
		return nil
	}
	defer signal.Stop(r.hup)
	tick := time.NewTicker(fileLook)
	defer tick.Stop()
	var w watch
	asked := false // somebody wants it read although it may be the same
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hup:
			asked = true
			w.ask(time.Now())
		case <-tick.C:
		}
		if r.look(&w, time.Now(), asked) {
			asked = false
		}
	}
}

// look reads the file if it is to be read, and reports whether it did. One whose
// bytes are in force is passed over unless it was asked for.
func (r *reloader) look(w *watch, now time.Time, asked bool) bool {
	path := r.file.Path()
	info, _ := os.Stat(path) // a file that is gone is nil, and an error when it is read
	if !w.rests(now, info) {
		if w.restless(now) {
			r.failed(fmt.Errorf("%s has been changing for %v: who writes it? It is read when it is still for %v", path, filePatience, fileStill))
		}
		return false
	}
	data, err := os.ReadFile(path)
	if after, _ := os.Stat(path); !sameFile(info, after) {
		return false // written meanwhile; the next look sees that it changed
	}
	w.due = false
	if err != nil {
		r.failed(fmt.Errorf("cannot be read: %w; put it back", err))
		return true
	}
	if !asked && r.inForce(data) {
		return true
	}
	if err := r.load(data); err != nil {
		r.failed(err)
		return true
	}
	r.succeeded(now)
	return true
}

// inForce reports whether these bytes hold already, and no failure is to be
// taken back.
func (r *reloader) inForce(data []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why == "" && string(data) == string(r.file.Data())
}

// load applies what the file holds now, all of it or nothing.
func (r *reloader) load(data []byte) error {
	next, err := r.file.With(data)
	if err != nil {
		return err
	}
	set, err := next.RulesToRun()
	if err != nil {
		return err
	}
	restart, err := r.file.NeedRestart(next)
	if err != nil {
		return err
	}
	if len(restart) > 0 {
		return fmt.Errorf("%s: changed and cannot take effect while the program runs: %s; restart it, or take the change back. Nothing of the new file holds",
			r.file.Path(), strings.Join(restart, ", "))
	}
	if r.check != nil {
		if err := r.check(set); err != nil {
			return err
		}
	}
	settle := func() {}
	if r.follow != nil {
		if settle, err = r.follow(next); err != nil {
			return err
		}
	}
	removed := r.file.Removed(next)
	r.warn(slices.DeleteFunc(next.Warnings(), func(w string) bool { return slices.Contains(r.file.Warnings(), w) }))
	r.apply(set)
	settle()
	r.file = next
	if n := len(removed); n > 0 {
		r.log.Warn("the new configuration has no longer what stood in the one before", "file", r.file.Path(),
			"count", n, "removed", strings.Join(removed[:min(n, maxRemoved)], ", "))
	}
	r.log.Info("configuration read again", "file", r.file.Path(), "rules", len(set.Rules))
	return nil
}

func (r *reloader) warn(warnings []string) {
	for _, w := range warnings {
		r.log.Warn(w)
	}
}

func (r *reloader) failed(err error) {
	r.log.Error("configuration not changed, the rules from before hold: the new one is refused", "file", r.file.Path(), "err", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why, r.stats.Success = err.Error(), false
}

func (r *reloader) succeeded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = ""
	r.stats = metrics.ReloadStats{Success: true, Timestamp: now.Unix()}
	if r.hasFile() {
		sum := sha256.Sum256(r.file.Data())
		r.stats.Hash = int64(binary.BigEndian.Uint64(sum[:8]) >> 16)
	}
}

// Stats tells how the last reload ended.
func (r *reloader) Stats() metrics.ReloadStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// shownBy adds the failure of the last reload to the status line of an admin page.
func (r *reloader) shownBy(c admin.Config) admin.Config {
	status := c.Status
	c.Status = func() (list []admin.Status) {
		if status != nil {
			list = status()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.why != "" {
			list = append(list, admin.Status{Name: "configuration", Value: "the last reload was refused: " + r.why})
		}
		return list
	}
	return c
}

// watch tells when a file that changed has come to rest. It reads no clock. The
// zero value takes the first look for a change.
type watch struct {
	info  os.FileInfo // as last seen; nil: not there
	since time.Time   // it has been so since
	due   bool        // it is to be read, when it is still
	begun time.Time   // due since
}

func (w *watch) ask(now time.Time) {
	if !w.due {
		w.due, w.begun = true, now
	}
}

// rests reports whether the file is to be read now, by how it looks.
func (w *watch) rests(now time.Time, info os.FileInfo) bool {
	if w.since.IsZero() || !sameFile(w.info, info) {
		w.ask(now)
		w.info, w.since = info, now
	}
	return w.due && now.Sub(w.since) >= fileStill
}

// restless reports, once in filePatience, that the file does not come to rest.
func (w *watch) restless(now time.Time) bool {
	if !w.due || now.Sub(w.begun) < filePatience {
		return false
	}
	w.begun = now
	return true
}

// sameFile reports whether the file was not written in between.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
