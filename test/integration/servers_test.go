package integration_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/test/internal/program"
)

// otherServers are older and newer than the server of this machine, by the release of Debian that has them. The cache
// folder holds each under that name.
var otherServers = []struct {
	is              string // the beginning of its name and version in logs
	release, debian string // its package
}{
	{"Redis 6.0.", "bullseye", "redis-server"},
	{"Valkey 8.", "trixie", "valkey-server"},
}

// timed are the tests of the packages of Redis that check our own time-outs and not abilities of the server.
const timed = "LoseAnswers|Frozen|Silent|EveryWayToFail|Forgotten|PushTakes|LogIsBounded"

var introduced = regexp.MustCompile(`redistest: (.+) on 127\.0\.0\.1:`)

// The scripts use nothing that Redis 6 or Valkey lacks: the laws of the limits and
// the other tests of the packages of Redis pass there, on one server, on a cluster and
// through a failover.
func TestLimitsHoldOnRedis6AndValkey(t *testing.T) {
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "1" {
		t.Skip("fetches Redis 6 and Valkey: set HOTPARAM_REQUIRE_SERVERS=1, or run make integration")
	}
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: the servers are packages of Debian", err)
		}
	}
	for _, other := range otherServers { // one after the other: time matters to some
		t.Run(other.debian+"-"+other.release, func(t *testing.T) {
			dir := program.Fetch(t, other.debian+"-"+other.release, func(dir string) *exec.Cmd {
				return exec.CommandContext(t.Context(), "sh", "fetch-server.sh", dir, other.release, other.debian)
			})
			began := time.Now()
			suite := suiteOn(t, filepath.Join(dir, "server"))
			is := slices.Collect(maps.Keys(suite.servers))
			if len(is) != 1 || !strings.HasPrefix(is[0], other.is) {
				t.Fatalf("the servers said that they are %v, want only %s", suite.servers, other.is)
			}
			t.Logf("%s: %d tests passed, on %d servers, in %v", is[0], suite.passed, suite.servers[is[0]],
				time.Since(began).Round(time.Second))
		})
	}
}

// suite is the result of one run of the tests of the packages of Redis.
type suite struct {
	passed  int
	servers map[string]int // numbers of servers by name and version
}

// suiteOn runs the tests of the packages of Redis on a server, without the race detector.
func suiteOn(t *testing.T, server string) suite {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-count=1", "-timeout=15m", "-parallel=4",
		"-skip="+timed, "./internal/storage/redisclient", "./internal/storage/rediscontrol",
		"./internal/storage/redislimits")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "HOTPARAM_REDIS_SERVER="+server,
		"HOTPARAM_LIMIT_STEPS="+cmp.Or(os.Getenv("HOTPARAM_LIMIT_STEPS"), "1000"))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, failure := cmd.Output()
	s, said := suite{servers: map[string]int{}}, map[string]string{}
	for lines := json.NewDecoder(bytes.NewReader(out)); ; {
		var e struct{ Action, Test, Output string }
		if err := lines.Decode(&e); err != nil {
			break // the end, or text of go itself, whose failure shows later
		}
		said[e.Test] += e.Output
		if m := introduced.FindStringSubmatch(e.Output); m != nil {
			s.servers[m[1]]++
		}
		switch {
		case e.Action == "pass" && e.Test != "":
			s.passed++
		case e.Action == "fail":
			t.Errorf("%s on %s:\n%s", e.Test, server, said[e.Test])
		}
	}
	if failure != nil {
		t.Fatalf("%v\n%s", failure, complaint.Bytes())
	}
	return s
}
