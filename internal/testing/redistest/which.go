package redistest

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// named is the environment variable that selects the server to start.
const named = "HOTPARAM_REDIS_SERVER"

// binary returns the path of the server to start. A server that is named must exist, because a test for Redis 6 must
// not be skipped.
func binary(t testing.TB) string {
	t.Helper()
	name := os.Getenv(named)
	bin, err := exec.LookPath(cmp.Or(name, "redis-server"))
	switch {
	case err == nil:
		return bin
	case name != "":
		t.Fatalf("redistest: %s=%q: %v", named, name, err)
	case RequireAll():
		t.Fatalf("redistest: redis-server is required: %v", err)
	}
	t.Skip("redistest: redis-server is not installed; with HOTPARAM_REQUIRE_SERVERS=1 this would fail")
	return ""
}

// RequireAll reports whether all tests must run, however long they take, and no server may be missing:
// HOTPARAM_REQUIRE_SERVERS=1.
func RequireAll() bool { return os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "1" }

// SkipIfShort skips a test that takes seconds, unless all tests are requested.
func SkipIfShort(t testing.TB) {
	t.Helper()
	if !RequireAll() {
		t.Skip("redistest: takes long; runs with HOTPARAM_REQUIRE_SERVERS=1")
	}
}

// introduce logs the name of the server that was started, if the test was asked to start a certain server.
func (s *Server) introduce() {
	s.t.Helper()
	if os.Getenv(named) != "" {
		s.t.Logf("redistest: %s on %s", s.Is(), s.Addr())
	}
}

// Is returns the name that the server reports: "Redis 6.0.16", "Valkey 8.1.1".
func (s *Server) Is() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.said["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + s.said["redis_version"]
}

// Before reports whether the server is older than a version of Redis. Valkey reports the version with which it is
// compatible.
func (s *Server) Before(major, minor int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := strings.SplitN(s.said["redis_version"], ".", 3)
	have, err := strconv.Atoi(part[0])
	if err != nil || len(part) < 2 {
		s.t.Fatalf("redistest: version %q of %s", part, s.bin)
	}
	if have != major {
		return have < major
	}
	have, err = strconv.Atoi(part[1])
	if err != nil {
		s.t.Fatalf("redistest: version %q of %s", part, s.bin)
	}
	return have < minor
}

// info holds the facts that a server reports of itself.
type info map[string]string

// ping checks that the server has loaded its data and is the process that the test started, because tests freeze, flush
// and kill it. It uses no client library, which would log every failure to standard error.
func ping(addr string, pid int) (info, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte("INFO server\r\nPING\r\n")); err != nil {
		return nil, err
	}
	said := info{}
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		switch {
		case err != nil:
			return nil, err
		case line[0] == '-':
			return nil, fmt.Errorf("answer %q", line)
		case line == "+PONG\r\n" && said["process_id"] == strconv.Itoa(pid):
			return said, nil
		case line == "+PONG\r\n":
			return nil, fmt.Errorf("another server listens on %s", addr)
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		said[name] = value
	}
}
