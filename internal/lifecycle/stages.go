// Package lifecycle runs the parts of a program and stops them in order: first the sources of input, then the parts
// that hold sums, last the parts that send them. Each stage ends when the stage before has returned, so received data
// is sent.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/logbound"
)

// Stage is the time at which a part stops: sources first, sinks last.
type Stage int

// The stages, in the order in which they stop.
const (
	Sources Stage = iota // read input: listeners, consumers, tails
	Buffers              // hold data: tally, aggregate
	Sinks                // write data: senders, followers, the admin page
	stageCount
)

type part struct {
	name string
	run  func(context.Context) error
}

// Stages runs the parts of one program. The zero value is ready. Add all parts,
// then call Run once.
type Stages struct {
	parts [stageCount][]part
}

// Add adds a part to a stage. Its run returns when its context ends and only after its last write; an error returned
// earlier stops the program.
func (s *Stages) Add(stage Stage, name string, run func(context.Context) error) {
	s.parts[stage] = append(s.parts[stage], part{name, run})
}

// Run starts all parts and waits until ctx ends or one of them fails. Then it stops stage by stage, each after the
// stage before has returned, all within timeout. The error is the failure that stopped the program, or nil after an
// ordinary stop. While it runs, the lines that logbound has suppressed are summed up.
func (s *Stages) Run(ctx context.Context, timeout time.Duration, log *slog.Logger) error {
	defer logbound.Start(log)()
	failed := make(chan error, 1)
	var stops [stageCount]func(context.Context) error
	for stage := range s.parts {
		stops[stage] = s.start(Stage(stage), failed)
	}
	var cause error
	select {
	case <-ctx.Done():
		log.Info("stopping", "reason", context.Cause(ctx))
	case cause = <-failed:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	errs := []error{cause}
	for _, stop := range stops {
		errs = append(errs, stop(grace))
	}
	return errors.Join(errs...)
}

func (s *Stages) start(stage Stage, failed chan<- error) func(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, p := range s.parts[stage] {
		wg.Go(func() {
			err := p.run(ctx)
			if err == nil || errors.Is(err, context.Canceled) {
				if ctx.Err() != nil {
					return
				}
				if err == nil && stage == Sources {
					return // a source may simply end: standard input
				}
				err = errors.New("stopped by itself")
			}
			select {
			case failed <- fmt.Errorf("%s: %w", p.name, err):
			default: // the first failure is the cause, later ones its effects
			}
		})
	}
	return func(grace context.Context) error {
		cancel()
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
			return nil
		case <-grace.Done():
			return errors.New("lifecycle: a part did not stop in time; its data is lost")
		}
	}
}

// InstanceName returns the configured name of this process, or a name that no other process has and that a person can
// trace: host, process, start.
func InstanceName(configured string) string {
	if configured != "" {
		return configured
	}
	return fmt.Sprintf("%s-%d-%d", HostName(), os.Getpid(), time.Now().Unix())
}

// HostName returns the name of this machine, or "unknown-host" if it has no name.
func HostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "unknown-host"
	}
	return host
}
