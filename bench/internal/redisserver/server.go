// Package redisserver starts real redis-servers on loopback, alone or as a cluster of six, makes them fail, and stops
// them by their process ID.
package redisserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// Server is a redis-server with a directory of its own. Only one goroutine at a time may use it. Stop it.
type Server struct {
	Addr string // host:port, the same after Launch

	path, dir string
	port, bus int
	args      []string
	process   *process.Process
}

// Start runs path with args behind the usual arguments and waits until the server answers. Without args the server
// keeps nothing on disk.
func Start(ctx context.Context, path string, args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "hotparam-redis-")
	if err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	s := &Server{path: path, dir: dir, args: args}
	for _, port := range []*int{&s.port, &s.bus} {
		if *port, err = freeport.Find(); err != nil {
			return nil, err
		}
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	if err := s.Launch(ctx); err != nil {
		return nil, err
	}
	if err := s.process.Await(s.Ping); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Launch starts the process, again after Kill, with the additional arguments in more. It does not wait until the server
// answers.
func (s *Server) Launch(ctx context.Context, more ...string) error {
	args := slices.Concat([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--logfile", "redis.log",
	}, s.args, more)
	if slices.Contains(args, "--cluster-enabled") {
		args = append(args, "--cluster-port", strconv.Itoa(s.bus))
	}
	var err error
	s.process, err = process.Start(ctx, nil, s.path, args...)
	return err
}

// Ping sends PING on a connection of its own. It fails if the server does not reply PONG within 100 ms, because it is
// loading, busy or frozen.
func (s *Server) Ping() error {
	dialer := net.Dialer{Timeout: 100 * time.Millisecond}
	conn, err := dialer.Dial("tcp", s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if line != "+PONG\r\n" {
		return fmt.Errorf("redisserver: answer %q", strings.TrimSpace(line))
	}
	return nil
}

// Client returns a plain client with generous timeouts. The caller closes it.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true})
}

// Do sends one command.
func (s *Server) Do(ctx context.Context, args ...any) error {
	c := s.Client()
	defer c.Close()
	if err := c.Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("redisserver: %v on %s: %w", args, s.Addr, err)
	}
	return nil
}

// Freeze stops the process, and Thaw continues it.
func (s *Server) Freeze() error { return s.process.Freeze() }

// Thaw continues a frozen process.
func (s *Server) Thaw() error { return s.process.Signal(syscall.SIGCONT) }

// Kill ends the process at once and waits for its end; its data on disk stay.
func (s *Server) Kill() { s.process.Stop() }

// Stop ends the process and removes its directory.
func (s *Server) Stop() {
	s.process.Stop()
	_ = os.RemoveAll(s.dir) // a remaining directory does no harm
}
