// Package etcdtest runs a real etcd for tests.
package etcdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Server is an etcd of one test. It ends with the test.
type Server struct {
	t    testing.TB
	dir  string
	addr string
	peer string
	cmd  *exec.Cmd   // nil: no process
	tls  *tls.Config // for its clients; nil without TLS
	args []string
}

// Start runs etcd. It skips the test if etcd is not installed and HOTPARAM_REQUIRE_SERVERS is not 1.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartTLS(t, nil)
}

// StartTLS is Start for a server that speaks TLS by the settings in args, and whose clients speak TLS by config.
func StartTLS(t testing.TB, config *tls.Config, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		if os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "1" {
			t.Fatal("no etcd in PATH (Debian: etcd-server), and HOTPARAM_REQUIRE_SERVERS is 1")
		}
		t.Skip("no etcd in PATH (Debian: etcd-server)")
	}
	s := &Server{t: t, dir: t.TempDir(), addr: freeport.Addr(t), peer: freeport.Addr(t), tls: config, args: args}
	t.Cleanup(s.Kill)
	s.Launch()
	return s
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return s.addr }

// Launch starts the server with the data that it had.
func (s *Server) Launch() {
	s.t.Helper()
	client, peer := "http://"+s.addr, "http://"+s.peer
	if s.tls != nil {
		client = "https://" + s.addr
	}
	s.cmd = exec.Command("etcd", "--data-dir", s.dir, "--listen-client-urls", client, "--advertise-client-urls", client, //nolint:noctx // Kill ends it
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	s.cmd.Args = append(s.cmd.Args, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = io.Discard, io.Discard
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	c := s.Client()
	for end := time.Now().Add(30 * time.Second); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := c.Get(ctx, "/")
		cancel()
		if err == nil || errors.Is(err, rpctypes.ErrUserEmpty) { // ErrUserEmpty: the test made users
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("etcd does not answer: %v", err)
		}
	}
}

// Kill ends the server at once.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Client returns a client of the server.
func (s *Server) Client() *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, TLS: s.tls, DialTimeout: 5 * time.Second,
		Logger: zap.NewNop()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}
