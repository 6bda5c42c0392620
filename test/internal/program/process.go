package program

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the time that a program may take to end after the signal.
const patience = time.Minute

// Process is a running program. It is stopped when its test ends.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	said record
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
	ours bool          // it must end at SIGTERM; others may hang
}

// record is the output of a program.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// Start starts a command, whose output only this package reads, in a process group of its own. The command and all
// processes that it started end with the test. If the test failed, the end of the output is logged.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			said := p.Said()
			t.Logf("--- %s said:\n%s", p.Name(), said[max(0, len(said)-6000):])
		}
	})
	return p
}

// Name returns the name of the program.
func (p *Process) Name() string { return filepath.Base(p.cmd.Path) }

// Said returns the output so far, errors included.
func (p *Process) Said() string { return p.said.String() }

// Pid returns its process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal to the program. It does nothing after the program's end.
func (p *Process) Signal(sig os.Signal) { _ = p.cmd.Process.Signal(sig) }

// Stop ends the program with SIGTERM, and returns its exit code. Processes that it started and left behind are killed.
func (p *Process) Stop() int {
	p.Signal(syscall.SIGTERM)
	if !p.ours { // Envoy may hang when it is told to end while it starts
		select {
		case <-p.done:
		case <-time.After(patience):
			p.t.Logf("%s did not end within %v", p.Name(), patience)
			p.Signal(os.Kill)
		}
	}
	code := p.Wait(patience)
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // mostly there is none
	return code
}

// Wait returns the exit code. A program that takes longer than most fails its test and is killed.
func (p *Process) Wait(most time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(most):
		p.t.Errorf("%s did not end within %v", p.Name(), most)
		p.Signal(os.Kill)
		<-p.done
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// Memory returns the memory that it holds now, in bytes (VmRSS).
func (p *Process) Memory() int64 { return p.memory("VmRSS:") }

// PeakMemory returns the maximum memory that it has held, in bytes (VmHWM).
func (p *Process) PeakMemory() int64 { return p.memory("VmHWM:") }

func (p *Process) memory(line string) int64 {
	p.t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), line)
	kib, err := strconv.ParseInt(strings.Fields(rest + " ?")[0], 10, 64)
	if err != nil {
		p.t.Fatalf("no %s in the status of %s: %v", line, p.Name(), err)
	}
	return kib << 10
}
