package program

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/textfile"
)

// secretFiles reads files of tokens again when they change, and at SIGHUP. A file that cannot be used changes nothing,
// and is reported until it can be used again. Files must be added before Run.
type secretFiles struct {
	log   *slog.Logger
	files []*secretFile
	// hup is taken with the first file, so that a SIGHUP before Run does not end the process. It is nil without a file.
	hup chan os.Signal

	mu    sync.Mutex // guards the fields below
	valid map[string]bool
}

// secretFile is one file. use reads it, puts its tokens in force, and reports whether they are new.
type secretFile struct {
	setting, path string
	use           func() (bool, error)
	watch         textfile.Watch
}

func newSecretFiles(log *slog.Logger) *secretFiles {
	return &secretFiles{log: log, valid: map[string]bool{}}
}

// addTokens adds the file of tokens of a setting such as "check.token", or nothing if path is "". replace puts tokens
// in force and reports whether they are new.
func (s *secretFiles) addTokens(setting, path string, replace func([]string) bool) {
	if path == "" {
		return
	}
	if s.hup == nil {
		s.hup = make(chan os.Signal, 1)
		signal.Notify(s.hup, syscall.SIGHUP)
	}
	s.valid[setting+"_file"] = true
	s.files = append(s.files, &secretFile{path: path, setting: setting + "_file", use: func() (bool, error) {
		tokens, err := auth.ReadTokens(setting, "", path)
		return err == nil && replace(tokens), err
	}})
}

func (s *secretFiles) Run(ctx context.Context) error {
	defer signal.Stop(s.hup)
	tick := time.NewTicker(textfile.Look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.hup:
			for _, f := range s.files {
				f.watch.Ask(time.Now())
			}
		case <-tick.C:
			for _, f := range s.files {
				s.checkFile(f, time.Now())
			}
		}
	}
}

// checkFile reads a file if it has changed and the change has settled.
func (s *secretFiles) checkFile(f *secretFile, now time.Time) {
	info, _ := os.Stat(f.path) // info of a removed file is nil; reading reports the error
	if !f.watch.Settled(now, info) {
		if f.watch.StillChanging(now) {
			s.report(f, false, fmt.Errorf("%s keeps changing (for %v)", f.path, textfile.SettleTimeout))
		}
		return
	}
	f.watch.Done()
	changed, err := f.use()
	s.report(f, changed, err)
}

func (s *secretFiles) report(f *secretFile, changed bool, err error) {
	s.mu.Lock()
	s.valid[f.setting] = err == nil
	s.mu.Unlock()
	switch {
	case err != nil:
		s.log.Error("tokens not changed, those from before hold: the file cannot be used", "file", f.path, "err", err)
	case changed:
		s.log.Info("tokens read again", "setting", f.setting, "file", f.path)
	}
}

func (s *secretFiles) fileStats() metrics.SecretFileStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return metrics.SecretFileStats{Valid: maps.Clone(s.valid)}
}
