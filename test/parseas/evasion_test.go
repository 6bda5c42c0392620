package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

const blocked = `
parse_as: %q
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000000}, malformed: deny}
  - {name: article, match: {path: "/articles/{id}/{slug}"}, params: [path.id], hot: {rate: 1000000}, malformed: deny}
overrides:
  - {key: "topic?id=star", action: block}
  - {key: "article?path.id=star", action: block}
`

// TestNoSpellingEvades sends mutated targets through hotparam serve to real upstreams. The value star is blocked, so no
// handler may see it. Set HOTPARAM_FUZZ_REQUESTS for more than 2,000 targets for each upstream, and
// HOTPARAM_FUZZ_SEED for other ones.
func TestNoSpellingEvades(t *testing.T) {
	requests, seed := number(t, "HOTPARAM_FUZZ_REQUESTS", 2000), number(t, "HOTPARAM_FUZZ_SEED", 1)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := newLab(installed(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); l.wait() })
	t.Logf(
		"%-16s %-8s %8s %8s %8s %8s %11s %s",
		"upstream",
		"parse_as",
		"answered",
		"refused",
		"evaded",
		"wrong",
		"undecodable",
		"overcharged",
	)
	for _, name := range fuzzed {
		if err := l.start(ctx, name); err != nil {
			missing(t, "%s: %v", name, err)
			continue
		}
		for _, preset := range []string{name, "strict"} {
			f := startFuzz(t, l.addrs[name], preset)
			f.send(requests, uint64(seed))
			t.Logf("%-16s %-8s %8d %8d %8d %8d %11d %d", name, preset[:min(8, len(preset))], f.answered, f.refused,
				len(f.evaded), len(f.wrong), f.undecodable, f.over)
			if len(f.evaded) > 0 {
				t.Errorf("%s, parse_as %s: %d of %d evade, such as %q", name, preset, len(f.evaded), requests,
					f.evaded[:min(12, len(f.evaded))])
			}
			if len(f.wrong)*500 > requests {
				t.Errorf("%s, parse_as %s: %d of %d are charged to a wrong key, such as %q", name, preset, len(f.wrong),
					requests, f.wrong[:min(12, len(f.wrong))])
			}
			f.serve.Stop()
		}
	}
}

func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// installed is the folder of the frameworks.
func installed(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("HOTPARAM_UPSTREAMS"); dir != "" {
		return dir
	}
	for _, tool := range []string{"npm", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "%v", err)
			t.SkipNow()
		}
	}
	return program.Fetch(
		t,
		"upstreams-1",
		func(dir string) *exec.Cmd { return exec.Command("./setup.sh", dir, "fuzz") },
	)
}

// missing fails the test if every server is required, and logs the message otherwise.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "1" {
		t.Fatalf(format, args...)
	}
	t.Logf("left out: "+format, args...)
}

// fuzz is hotparam serve in front of an upstream, with the results of the targets.
type fuzz struct {
	serve           *program.Process
	proxy, upstream string
	set             *rules.Set
	mu              sync.Mutex
	answered        int
	refused         int // by hotparam
	over            int // of those, the upstream would not have seen star
	undecodable     int // values that each framework decodes in its own way, see isDecodable
	evaded, wrong   []string
}

func startFuzz(t *testing.T, upstream, preset string) *fuzz {
	t.Helper()
	text := fmt.Sprintf(blocked, preset)
	set, err := rules.Parse("blocked.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "blocked.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fuzz{proxy: freeport.Addr(t), upstream: upstream, set: set}
	admin := freeport.Addr(t)
	f.serve = program.Launch(t, "hotparam", "serve", "--config", config, "--upstream", "http://"+upstream, "--listen",
		f.proxy, "--admin.listen", admin, "--state.dir", t.TempDir())
	program.Await(t, time.Minute, "an answer through serve", func() bool {
		status, id := (&wire{addr: f.proxy}).get("/topic?id=7")
		return status == http.StatusOK && id == "7"
	})
	return f
}

// send sends targets over a few connections.
func (f *fuzz) send(n int, seed uint64) {
	var wg sync.WaitGroup
	const workers = 4
	for i := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			front, behind := &wire{addr: f.proxy}, &wire{addr: f.upstream}
			defer front.close()
			defer behind.close()
			for range n / workers {
				f.one(mutant(r), front, behind)
			}
		})
	}
	wg.Wait()
}

func (f *fuzz) one(target string, front, behind *wire) {
	status, id := front.get(target)
	direct := any(nil)
	if status == http.StatusTooManyRequests || status == http.StatusForbidden {
		_, direct = behind.get(target)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch v, text := id.(string); {
	case status == http.StatusTooManyRequests || status == http.StatusForbidden:
		f.refused++
		if !has(direct, "star") {
			f.over++
		}
	case status != http.StatusOK:
	case has(id, "star"):
		f.answered++
		f.evaded = append(f.evaded, target)
	case text && f.charges(target, v):
		f.answered++
	case text && !isDecodable(target):
		f.answered++
		f.undecodable++
	case text:
		f.answered++
		f.wrong = append(f.wrong, fmt.Sprintf("%s as %s", target, v))
	default:
		f.answered++
	}
}

// charges reports whether a key of a target has the value, or the target is malformed.
func (f *fuzz) charges(target, value string) bool {
	value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
	for _, m := range f.set.Match(&hottype.Request{Method: http.MethodGet, Target: target, Host: "127.0.0.1"},
		new(rules.Scratch)) {
		if key := string(m.Key); m.Malformed || key == "topic?id="+value || key == "article?path.id="+value {
			return true
		}
	}
	return false
}
