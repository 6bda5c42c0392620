package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/hotparam/pipeline/bench/internal/trace"
)

// truth holds the hot keys of each tick with their counts, as the exact program prints them.
type truth []map[string]int

// exactProgram is the built program of hot/exact.
type exactProgram struct{ dir string }

// buildExact builds the exact program in a directory of its own, which remove removes.
func buildExact() (exactProgram, error) {
	dir, err := os.MkdirTemp("", "hot")
	if err != nil {
		return exactProgram{}, fmt.Errorf("hot: %w", err)
	}
	p := exactProgram{dir}
	const exact = "github.com/hotparam/pipeline/bench/hot/exact"
	if out, err := exec.Command("go", "build", "-o", p.file(), exact).CombinedOutput(); err != nil {
		p.remove()
		return p, fmt.Errorf("hot: building %s: %w\n%s", exact, err, out)
	}
	return p, nil
}

func (p exactProgram) file() string { return filepath.Join(p.dir, "exact") }
func (p exactProgram) remove()      { os.RemoveAll(p.dir) }

// count writes the trace to a file, which is the input of the program, and reads its output.
func (p exactProgram) count(t *trace.Trace) (truth, error) {
	file := filepath.Join(p.dir, "trace.txt")
	if err := writeTrace(file, t); err != nil {
		return nil, err
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("hot: %w", err)
	}
	defer in.Close()
	counting := exec.Command(p.file(), strconv.Itoa(t.Hot))
	counting.Stdin, counting.Stderr = in, os.Stderr
	out, err := counting.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("hot: %w", err)
	}
	if err := counting.Start(); err != nil {
		return nil, fmt.Errorf("hot: %w", err)
	}
	known, readErr := readTruth(out, int(t.Ends()/trace.Tick))
	if err := counting.Wait(); err != nil {
		return nil, fmt.Errorf("hot: exact: %w", err)
	}
	return known, readErr
}

// readTruth reads the lines of the exact program.
func readTruth(r io.Reader, ticks int) (truth, error) {
	known := make(truth, ticks)
	for i := range known {
		known[i] = map[string]int{}
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var now, n int
		var key string
		if _, err := fmt.Sscan(lines.Text(), &now, &key, &n); err != nil || now < trace.Tick || now > ticks*trace.Tick {
			return nil, fmt.Errorf("hot: exact printed %q", lines.Text())
		}
		known[now/trace.Tick-1][key] = n
	}
	return known, nil
}
