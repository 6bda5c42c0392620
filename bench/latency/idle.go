package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/bench/internal/process"
)

// lateness holds the delays with which an idle program wakes up.
type lateness struct{ P50, P99, Max time.Duration }

// idle is the idle program: it has as many timers as there are trials at a time, each as frequent as a trial's
// requests. It writes its lateness when in is closed.
func idle(in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	var all [lanes][]time.Duration
	var waits sync.WaitGroup
	for i := range all {
		waits.Go(func() {
			began := time.Now()
			for n := 1; ; n++ {
				due := began.Add(time.Duration(n) * time.Second / (rate * times))
				if !pause(ctx, time.Until(due)) {
					return
				}
				all[i] = append(all[i], time.Since(due))
			}
		})
	}
	_, err := io.Copy(io.Discard, in)
	stop()
	waits.Wait()
	if err != nil {
		return err
	}
	late := slices.Concat(all[:]...)
	slices.Sort(late)
	return json.NewEncoder(out).Encode(lateness{percentile(late, 50), percentile(late, 99), percentile(late, 100)})
}

// idler is an idle program that runs beside the trials.
type idler struct {
	process *process.Process
	in      io.Closer
	out     bytes.Buffer // complete when the process has ended
}

func startIdler(ctx context.Context) (*idler, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	i := &idler{}
	var piped error
	i.process, err = process.Start(ctx, func(cmd *exec.Cmd) {
		i.in, piped = cmd.StdinPipe()
		cmd.Stdout, cmd.Stderr = &i.out, os.Stderr
	}, self, "-idle")
	if err != nil {
		return nil, err
	}
	if piped != nil {
		i.process.Stop()
		return nil, piped
	}
	return i, nil
}

// end stops the idle program and returns its lateness.
func (i *idler) end() (late lateness, err error) {
	defer i.process.Stop()
	if err := i.in.Close(); err != nil {
		return late, err
	}
	if err := i.process.Wait(10 * time.Second); err != nil {
		return late, err
	}
	if err := json.Unmarshal(i.out.Bytes(), &late); err != nil {
		return late, fmt.Errorf("the idle program said %q: %w", i.out.String(), err)
	}
	return late, nil
}
