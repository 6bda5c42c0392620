package redistest

import (
	"context"
	"os"
	"strings"
	"testing"
)

// Documentation returns docs/redis.md, which the tests of three packages keep true.
func Documentation(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Grant makes the users of the documentation on every server, with the additional rights that a cluster needs.
func Grant(t testing.TB, servers []*Server, more ...any) {
	t.Helper()
	users := 0
	for line := range strings.Lines(Documentation(t)) {
		if !strings.HasPrefix(line, "ACL SETUSER hotparam-") {
			continue
		}
		users++
		for _, s := range servers {
			args := append(s.Known(line), more...)
			if s.Before(7, 0) {
				args = append(args, "+client|setname", "+select", "+asking")
			}
			if err := s.Client().Do(context.Background(), args...).Err(); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	if users != 2 {
		t.Fatalf("docs/redis.md has %d ACL lines; want 2", users)
	}
}

// Known converts a line of ACL SETUSER into the form that the documentation describes for servers of older versions.
func (s *Server) Known(line string) (args []any) {
	for _, f := range strings.Fields(line) {
		channel := f == "resetchannels" || strings.HasPrefix(f, "&")
		switch {
		case channel && s.Before(6, 2):
			continue
		case strings.HasPrefix(f, "%R~") && s.Before(7, 0):
			f = "~hp:{news}:*"
		}
		args = append(args, strings.ReplaceAll(f, "PASSWORD", "pw"))
	}
	return args
}
