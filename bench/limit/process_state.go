package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/bench/internal/link"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// server is a program of a deployment, which is started again with the same arguments. It is a state whose answers pass
// links.
type server struct {
	path  string
	args  []string
	env   []string
	addr  string // it listens at
	log   string // file of its output
	links []*link.Link
	*process.Process
}

// start runs the program until ctx ends, and waits until it listens.
func (s *server) start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the program has a descriptor of its own
	s.Process, err = process.Start(ctx, func(cmd *exec.Cmd) {
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), s.env...), log, log
	}, s.path, s.args...)
	if err != nil {
		return err
	}
	return s.await(func() error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// await waits until the program is ready, or stops it. An error holds its output.
func (s *server) await(ready func() error) error {
	err := s.Await(ready)
	if err == nil {
		return nil
	}
	s.End()
	said, _ := os.ReadFile(s.log) // the error says enough without it
	return fmt.Errorf("%w: %s", err, said)
}

// through returns the address of a new link to the server at addr.
func (s *server) through(ctx context.Context, addr string) (string, error) {
	l, err := link.New(ctx, addr)
	if err != nil {
		return "", err
	}
	s.links = append(s.links, l)
	return l.Addr(), nil
}

// stop ends the program and the links, as far as they were started. The program ends by SIGTERM, because it may have
// processes of its own.
func (s *server) stop() {
	if s.Process != nil {
		s.End()
	}
	for _, l := range s.links {
		l.Close()
	}
}

func (s *server) slow(d time.Duration) {
	for _, l := range s.links {
		l.Slow(d)
	}
}

func (s *server) freeze() error                     { return s.Freeze() }
func (s *server) thaw() error                       { return s.Signal(syscall.SIGCONT) }
func (s *server) kill()                             { s.Stop() }
func (s *server) restart(ctx context.Context) error { return s.start(ctx) }

// newServer returns a server that has n free addresses on loopback, and logs to a directory of its own in dir.
func newServer(dir, path string, n int) (s *server, own string, addrs []string, err error) {
	if own, err = os.MkdirTemp(dir, filepath.Base(path)+"-"); err != nil {
		return nil, "", nil, err
	}
	for range n {
		addr, err := freeport.FindAddr()
		if err != nil {
			return nil, "", nil, err
		}
		addrs = append(addrs, addr)
	}
	return &server{path: path, log: filepath.Join(own, "log")}, own, addrs, nil
}
