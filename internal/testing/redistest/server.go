package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/redis/go-redis/v9"
)

// ready is the maximum time for the start of a server, and for each event that a test awaits. A busy machine does not
// reach it.
const ready = time.Minute

// toBus is the distance of the port between the nodes of a cluster above the port of the clients. Redis 6 does not let
// tests choose it.
const toBus = 10_000

// Server is one process of Redis, or of the server that HOTPARAM_REDIS_SERVER names. Its methods may be called by the
// test's goroutines one at a time. They fail the test when something goes wrong.
type Server struct {
	t    testing.TB
	bin  string
	dir  string
	port int
	args []string
	file string // settings of a Sentinel; "" for a server

	mu     sync.Mutex // guards the fields that a restart replaces
	said   info
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has been waited for
}

// Start runs a redis-server with args behind the usual ones ("--appendonly", "yes"), waits until it answers, and stops
// it when the test ends. Without args it keeps nothing on disk.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, bin: binary(t), dir: t.TempDir(), args: args}
	t.Cleanup(s.Stop)
	var err error
	for range 5 { // another process may take the port before the server does
		s.port = freeport.Port(t, toBus)
		if err = s.tryLaunch(); err == nil {
			s.introduce()
			return s
		}
	}
	t.Fatalf("redistest: %v", err)
	return nil
}

// Addr returns host:port of the server, which stays the same after a restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Client returns a new plain client with generous timeouts, which is closed when the test ends.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true})
	s.t.Cleanup(func() { _ = c.Close() }) // nothing is buffered in it
	return c
}

// Freeze stops the process (SIGSTOP). Its connections stay open, and nothing answers.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw continues a frozen process.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

// Kill ends the process without a chance to save (SIGKILL) and waits for it.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	s.await()
}

// Stop ends the process in the ordinary way and waits for it. It does nothing if the server is stopped.
func (s *Server) Stop() {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	// The process may be frozen or have ended already.
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-exited:
	case <-time.After(ready):
		_ = cmd.Process.Kill()
		<-exited
	}
}

// Restart stops the server and starts it again on the same port and directory.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Relaunch()
}

// Relaunch starts a server again that was killed or stopped.
func (s *Server) Relaunch() {
	s.t.Helper()
	s.await()
	if err := s.tryLaunch(); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}

// Flush empties all databases, so that the server has lost its data.
func (s *Server) Flush() {
	s.t.Helper()
	if err := s.Client().FlushAll(context.Background()).Err(); err != nil {
		s.t.Fatalf("redistest: flush: %v", err)
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: signal %v: %v", sig, err)
	}
}

func (s *Server) await() {
	s.mu.Lock()
	exited := s.exited
	s.mu.Unlock()
	<-exited
}

func (s *Server) tryLaunch() error {
	log := filepath.Join(s.dir, "redis.log")
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no",
		"--save", "", "--appendonly", "no", "--logfile", log,
	}, s.args...)
	if s.file != "" {
		args = []string{s.file, "--sentinel"}
	}
	cmd := exec.Command(s.bin, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	exited := make(chan struct{})
	go func() { // ends with the process, which Stop awaits
		_ = cmd.Wait() // killed by a signal is the usual end
		close(exited)
	}()
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	if err := s.awaitReady(cmd.Process.Pid, exited); err != nil {
		s.Stop() // before its output is read
		said, _ := os.ReadFile(log)
		return fmt.Errorf("%w\n%s%s", err, out.Bytes(), said)
	}
	return nil
}

// awaitReady waits until the server answers or its process has ended.
func (s *Server) awaitReady(pid int, exited <-chan struct{}) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(ready)
	for {
		seen, err := ping(s.Addr(), pid)
		if err == nil {
			s.mu.Lock()
			s.said = seen
			s.mu.Unlock()
			return nil
		}
		select {
		case <-tick.C:
		case <-exited:
			return fmt.Errorf("%s on %s ended at once", s.bin, s.Addr())
		case <-end:
			return fmt.Errorf("%s on %s does not answer: %w", s.bin, s.Addr(), err)
		}
	}
}
