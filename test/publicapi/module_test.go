package publicapi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const imports = `package main

import (
	"context"
	"log"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/shared"
)
`

// Each is a whole program: the body of main and its imports.
var programs = map[string]string{
	"in process": `
func main() {
	rules, err := hotparam.LoadRules("rules.yaml")
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	go p.Run(context.Background())
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", p.Middleware(http.NotFoundHandler())))
}
`,
	"with Redis": `
func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	p, err := hotparam.New(hotparam.Config{Shared: shared.Config{Redis: rdb, StatsD: "127.0.0.1:8127"}})
	if err != nil {
		log.Fatal(err)
	}
	go p.Run(context.Background())
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", p.Middleware(http.NotFoundHandler())))
}
`,
}

// unwanted are the packages that a service must neither compile nor need for the library.
var unwanted = []string{
	"github.com/IBM/sarama", "google.golang.org/grpc", "github.com/prometheus/", "github.com/alecthomas/kong",
	"github.com/chromedp/", "github.com/twmb/", "github.com/alicebob/miniredis", "pgregory.net/rapid",
	"go.uber.org/goleak",
	"github.com/google/go-cmp", "testing",
}

// unwantedAlone are the packages that a service without a shared store must not compile.
var unwantedAlone = []string{
	"github.com/redis/", "github.com/cactus/", "github.com/klauspost/",
	"github.com/hotparam/pipeline/internal/operator",
}

// A new module in an empty folder protects a service in at most ten lines of main.
func TestANewModuleProtectsAService(t *testing.T) {
	t.Parallel()
	for name, main := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if lines := strings.Count(strings.TrimSpace(main), "\n") - 1; lines > 10 {
				t.Errorf("main has %d lines, want at most 10", lines)
			}
			source := imports
			no := unwanted
			if !strings.Contains(main, "redis.") {
				source = strings.Replace(source, "\t\"github.com/redis/go-redis/v9\"\n\n", "", 1)
				source = strings.Replace(source, "\t\"github.com/hotparam/pipeline/hotparam/shared\"\n", "", 1)
				no = append(unwantedAlone, no...)
			}
			dir := newModule(t, source+main)
			run(t, dir, "build", "-o", filepath.Join(dir, "service"), ".")
			run(t, dir, "vet", ".")
			for dep := range strings.Lines(run(t, dir, "list", "-deps", ".")) {
				dep = strings.TrimSpace(dep)
				for _, no := range no {
					if dep == no || strings.HasPrefix(dep, strings.TrimSuffix(no, "/")+"/") && no != "testing" {
						t.Errorf("it compiles %s", dep)
					}
				}
			}
		})
	}
}

// newModule makes a module that takes the library from this repository, and all else
// from where this repository took it: no network is needed.
func newModule(t *testing.T, main string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.go": main,
		"go.sum":  string(sums),
		"go.mod":  "module example.org/service\n\ngo 1.26.0\n\nrequire github.com/hotparam/pipeline v0.0.0\n\nreplace github.com/hotparam/pipeline => " + root + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs the go command in the new module.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return string(out)
}
