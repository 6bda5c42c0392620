package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/learn"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/requestlog"
)

type Learning struct {
	For time.Duration
	// Out is the file to write, which must not exist yet. If Out is "", the file is learnedName in the state directory.
	Out string
	// Output receives a report for people.
	Output io.Writer
}

const (
	learnedName    = "hotparam.learned.yaml"
	maxLearn       = 24 * time.Hour
	minRequests    = 500     // fewer are too few to learn from
	maxRecorded    = 1 << 30 // bytes of the spool
	learnLateness  = time.Minute
	learnMaxBuffer = 64 << 20
)

func (l *Learning) check(stateDir, configFile string) error {
	if l.For <= 0 || l.For > maxLearn {
		return config.Usage("--learn %v must be above 0s and at most %v, such as 10m", l.For, maxLearn)
	}
	l.Out = cmp.Or(l.Out, filepath.Join(stateDir, learnedName))
	if isSameFile(l.Out, configFile) {
		return config.Usage("--learn-out %s is the file of --config, which is in force: write somewhere else", l.Out)
	}
	probe, err := os.CreateTemp(filepath.Dir(l.Out), ".hotparam-learn-*")
	if err != nil {
		return fmt.Errorf("learn: nothing could be written to --learn-out %s: %w", l.Out, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func isSameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// learning is the part of a program that learns.
type learning struct {
	Learning
	recorder *requestlog.Recorder
	spool    *os.File // has no name, so it is removed with the process
	notes    []string
	grace    time.Duration // time for the remaining work when the program stops
	log      *slog.Logger
}

// Open prepares to learn, or returns an error at once if learning cannot work. If the file exists already, Open returns
// nil, so that a restart with the same flags neither overwrites the file nor fails.
func (l *Learning) Open(cfg config.Serve, set func() *rules.Set, clients *httplimit.Clients,
	log *slog.Logger) (program.Learner, error) {
	if err := l.check(cfg.State.Dir, cfg.Config); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(l.Out); err == nil {
		log.Warn("not learning: the file is there already; remove it to learn again", "file", l.Out)
		return nil, nil
	}
	spool, err := os.CreateTemp(cfg.State.Dir, ".hotparam-learn-*")
	if err == nil {
		err = os.Remove(spool.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("learn: requests cannot be kept in --state.dir: %w", err)
	}
	return &learning{
		Learning: *l, spool: spool, notes: missingSettings(set()), grace: cfg.Stop.Timeout / 2, log: log,
		recorder: requestlog.New(requestlog.Config{To: spool, MaxBytes: maxRecorded, Rules: set, Clients: clients}),
	}, nil
}

// missingSettings returns a note that names the settings in force that a learned file does not contain, or nil if there
// are none.
func missingSettings(set *rules.Set) []string {
	var all []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"namespace", set.Namespace != rules.DefaultNamespace}, {"redact", set.Redacts()},
		{"ip.trusted_proxies", len(set.IP.TrustedProxies) > 0}, {"ip.client", set.IP.Client != ""},
		{"parse_as", set.ParseAs.Known}, {"classes", len(set.Classes) > 0}, {"overrides", len(set.Overrides) > 0},
	} {
		if f.has {
			all = append(all, f.name)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []string{"Take over from the configuration that was in force, because it is not here: " +
		strings.Join(all, ", ") + "."}
}

func (l *learning) Wrap(next http.Handler) http.Handler { return l.recorder.Wrap(next) }

// Run watches, writes the file, and waits until ctx ends, while the program goes on as before. If ctx ends earlier, Run
// learns from the requests so far.
func (l *learning) Run(ctx context.Context) error {
	defer l.spool.Close()
	l.log.Info("learning from the traffic; the rules in force stay as they are", "for", l.For, "file", l.Out)
	began := time.Now()
	watch, stop := context.WithTimeout(ctx, l.For)
	if err := l.recorder.Run(watch); err != nil {
		l.log.Warn("watching the traffic ended early", "err", err)
	}
	stop()
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(l.grace, end) })()
	if err := l.learnRules(work, time.Since(began)); err != nil {
		l.log.Error("nothing was learned", "file", l.Out, "err", err)
		fmt.Fprintf(l.Output, "nothing was learned: %v\n", err)
	}
	<-ctx.Done()
	return nil
}

func (l *learning) learnRules(ctx context.Context, looked time.Duration) error {
	n, missed := l.recorder.Written(), l.recorder.Dropped()
	if n < minRequests {
		return fmt.Errorf("learn: %d requests in %v; at least %d are needed: watch longer, or give access logs to "+
			"hotparam learn", n, looked.Round(time.Second), minRequests)
	}
	if looked = looked.Round(time.Second); looked < l.For.Round(time.Second) {
		l.notes = append(l.notes, fmt.Sprintf("It looked for %v and not for %v: it was stopped before.", looked, l.For))
	}
	if missed > 0 {
		l.notes = append(l.notes, fmt.Sprintf("%d requests came too fast to be written down: they are left out.",
			missed))
	}
	p, err := learn.Learn(ctx, learn.Config{
		Format: accesslog.JSONL, Lateness: learnLateness, MaxBuffer: learnMaxBuffer,
		By: "hotparam serve --learn", Notes: l.notes,
	}, func() ([]replay.Source, error) {
		return []replay.Source{{Name: "the traffic", Reader: io.NewSectionReader(l.spool, 0, 1<<62)}}, nil
	})
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("learn: stopped before it was done with %d requests; a longer --stop.timeout lets it", n)
	}
	if err != nil {
		return err
	}
	if err := l.writeFile(p); err != nil {
		return err
	}
	l.log.Info("learned", "file", l.Out, "requests", n, "looked", looked, "missed", missed, "rules", p.Rules(),
		"would_deny", p.Outcome.Replay.Denied.Total(), "ordinary_clients", p.Outcome.Ordinary, "hurt", p.Outcome.Hurt)
	err = p.Write(l.Output)
	fmt.Fprintf(l.Output, "%s: read it, then start with --config %s; until then nothing has changed\n", l.Out, l.Out)
	return err
}

// writeFile writes the file as a whole or not at all, and never replaces a file.
func (l *learning) writeFile(p *learn.Proposal) error {
	var text bytes.Buffer
	if err := p.WriteYAML(&text); err != nil {
		return err
	}
	f, err := os.OpenFile(l.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("learn: --learn-out: %w", err)
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("learn: --learn-out: %w", err), os.Remove(l.Out))
	}
	return nil
}
