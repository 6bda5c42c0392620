// Busy runs a command while every processor is taken, as on a machine that others use: by loops, by goroutines that
// wake each other, by garbage, and by small files. It ends with the command, and with its status.
//
//	cd test && go run ./busy -load 2 go test ./e2e
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

func main() {
	load := flag.Int("load", 1, "how many workers of each kind there are for each processor")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, *load, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "busy:", err)
		status = 1
	}
	os.Exit(status)
}

// run returns the status of the command, which runs beside load workers of each kind for each processor.
func run(ctx context.Context, load int, command []string) (status int, err error) {
	if len(command) == 0 || load < 1 {
		return 0, errors.New("want a command, and a load of 1 or more: go run ./busy go test ./e2e")
	}
	dir, err := os.MkdirTemp("", "busy")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for i := range load * runtime.NumCPU() {
		file := filepath.Join(dir, fmt.Sprint(i))
		for _, work := range []func(){compute, switchGoroutines, makeGarbage, func() { writeFile(file) }} {
			workers.Go(func() {
				for working.Err() == nil {
					work()
				}
			})
		}
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // -1 after a signal
	}
	return 0, err
}

// compute takes a processor for about a millisecond.
func compute() {
	sum := [32]byte{}
	for range 10_000 {
		sum = sha256.Sum256(sum[:])
	}
}

// switchGoroutines hands a token to and fro a thousand times.
func switchGoroutines() {
	there, back := make(chan int), make(chan int)
	go func() {
		for n := range there {
			back <- n
		}
		close(back)
	}()
	for n := range 1000 {
		there <- n
		<-back
	}
	close(there)
	<-back
}

// makeGarbage allocates 16 MiB in small pieces, so that the collector runs.
func makeGarbage() {
	var kept [64][]byte
	for i := range 16 << 10 {
		kept[i%len(kept)] = make([]byte, 1<<10)
	}
	runtime.KeepAlive(kept)
}

// writeFile writes a small file and removes it. It ignores a full disk.
func writeFile(path string) {
	_ = os.WriteFile(path, make([]byte, 64<<10), 0o600)
	_ = os.Remove(path)
}
