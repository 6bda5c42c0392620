package run

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hotparam/pipeline/cmd/internal/config"
	"github.com/hotparam/pipeline/hotparam/rules"
)

// Context ends at SIGINT or SIGTERM. A second signal ends the process at once,
// for a person who does not want to wait.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Logger writes to standard error in the configured form.
func Logger(c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // kong checked it against the enum
	opts := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}

// settle is how long a file must be quiet before it is read: editors write in
// several steps.
const settle = 200 * time.Millisecond

// reloader reads the rules again when their file changes or at SIGHUP and
// hands good ones to apply. Bad ones change nothing and are logged.
type reloader struct {
	path  string
	check func(*rules.Set) error // what the rules do not know themselves; nil: nothing
	apply func(*rules.Set)
	log   *slog.Logger
}

// Run watches until ctx ends. The directory is watched, not the file, because
// editors and Kubernetes replace the file.
func (r *reloader) Run(ctx context.Context) error {
	if r.path == "" {
		<-ctx.Done()
		return nil
	}
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watch.Close()
	if err := watch.Add(filepath.Dir(r.path)); err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	last, _ := os.ReadFile(r.path)
	var quiet <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			last = r.load(nil)
		case _, ok := <-watch.Events:
			if !ok {
				return errors.New("watching the configuration stopped")
			}
			quiet = time.After(settle)
		case err := <-watch.Errors:
			r.log.Warn("watching the configuration", "err", err)
		case <-quiet:
			quiet = nil
			last = r.load(last)
		}
	}
}

// load applies the file unless its bytes are the last ones seen; it returns
// the bytes seen now.
func (r *reloader) load(last []byte) []byte {
	data, err := os.ReadFile(r.path)
	if err == nil && last != nil && string(data) == string(last) {
		return last
	}
	set, err := config.LoadRules(r.path)
	if err == nil && r.check != nil {
		err = r.check(set)
	}
	if err != nil {
		r.log.Error("configuration not changed: the new one is wrong", "file", r.path, "err", err)
		return data
	}
	r.apply(set)
	r.log.Info("configuration read again", "file", r.path, "rules", len(set.Rules))
	return data
}
