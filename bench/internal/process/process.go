// Package process starts the other programs of a comparison on loopback, reads the CPU time that they use, and stops
// them. It knows each by its process ID.
package process

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a running program. Stop it.
type Process struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
}

// Start runs a program, which is asked to end by SIGTERM when ctx ends, and killed 5 s later. prepare may set up pipes.
func Start(ctx context.Context, prepare func(*exec.Cmd), path string, args ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	if prepare != nil {
		prepare(cmd)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("process: start %s: %w", path, err)
	}
	p := &Process{cmd: cmd, gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		_ = cmd.Wait() // the result does not matter, because Await and Stop report it
	}()
	return p, nil
}

// StartListening starts a program and waits until it takes connections at addr. An error holds the standard error of
// the program. The program ends with ctx.
func StartListening(ctx context.Context, addr, path string, args ...string) (*Process, error) {
	var said bytes.Buffer
	p, err := Start(ctx, func(cmd *exec.Cmd) { cmd.Stderr = &said }, path, args...)
	if err != nil {
		return nil, err
	}
	err = p.Await(func() error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		p.End()
		return nil, fmt.Errorf("%w: %s", err, said.Bytes())
	}
	return p, nil
}

// Stop kills the program and waits until it has ended.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill() // fails if the program has ended already, which does not matter
	<-p.gone
}

// End asks the program to end by SIGTERM, and kills it if it has not ended within 5 s. It is for programs with
// processes of their own, which a kill would leave behind.
func (p *Process) End() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if the program has ended already, which does not matter
	if p.Wait(5*time.Second) != nil {
		p.Stop()
	}
}

// Signal sends the program a signal, such as SIGSTOP and SIGCONT.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("process: %v to %s: %w", sig, p.cmd.Path, err)
	}
	return nil
}

// Freeze stops the program by SIGSTOP, and returns when all its threads stand still. SIGCONT lets it go on.
func (p *Process) Freeze() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.Await(func() error { return stopped(strconv.Itoa(p.cmd.Process.Pid)) })
}

// stopped returns an error if a thread still runs. It knows none where there is no /proc.
func stopped(pid string) error {
	threads, err := filepath.Glob("/proc/" + pid + "/task/*")
	if err != nil {
		return fmt.Errorf("process: %w", err)
	}
	for _, thread := range threads {
		fields, err := statOf(thread)
		if err != nil {
			return err
		}
		if fields[0] != "T" {
			return fmt.Errorf("process: %s is in state %s", thread, fields[0])
		}
	}
	return nil
}

// Wait waits until the program ends by itself, or until d has passed.
func (p *Process) Wait(d time.Duration) error {
	select {
	case <-p.gone:
		return nil
	case <-time.After(d):
		return fmt.Errorf("process: %s has not ended within %v", p.cmd.Path, d)
	}
}

// Await polls until the program is ready, at most 10 s.
func (p *Process) Await(ready func() error) error {
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
		select {
		case <-p.gone:
			return fmt.Errorf("process: %s has ended: %w", p.cmd.Path, err)
		default:
		}
	}
	return fmt.Errorf("process: %s is not ready: %w", p.cmd.Path, err)
}

// CPU returns the CPU time used so far by the program and the processes that it started itself, in steps of 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children") // not every kernel lists them
	var sum time.Duration
	for _, pid := range append(strings.Fields(string(children)), pid) {
		used, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func cpuOf(pid string) (time.Duration, error) {
	fields, err := statOf("/proc/" + pid)
	if err != nil {
		return 0, err
	}
	// User and kernel time are the 12th and 13th field.
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("process: stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// statOf returns the fields of a process or thread behind its name, which is in brackets and may hold blanks. The first
// is its state.
func statOf(dir string) ([]string, error) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])), nil
}
