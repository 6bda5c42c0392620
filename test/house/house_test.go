package house

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hotparam/pipeline"

// floors lists the rooms from the ground up. A room imports only rooms of lower
// floors, or of its own floor where peers says so.
var floors = []struct {
	name  string
	peers bool // rooms of this floor may import each other
	rooms []string
	why   string
}{
	{"words", false, []string{"hotparam"}, "everybody speaks them, so they depend on nobody"},
	{"scripts", false, []string{"lua"}, "text only"},
	{"machines", true, []string{
		"hotparam/canon", "hotparam/limit", "hotparam/rules", "hotparam/topk", "hotparam/window", "hotparam/detect",
		"hotparam/upstream", "hotparam/crowd", "hotparam/hotset", "hotparam/accesslog", "hotparam/httpwire", "hotparam/daily",
	}, "pure logic that can be tested like a table"},
	{"edges", false, []string{
		"hotparam/statsd", "hotparam/kafka", "hotparam/graphite", "hotparam/redisstore", "hotparam/statedir", "hotparam/tail",
		"hotparam/carbon", "hotparam/kernel",
	}, "one outside system each; two that know each other cannot be replaced alone"},
	{"judgement", true, []string{
		"hotparam/tally", "hotparam/gate", "hotparam/aggregate", "hotparam/replay", "hotparam/checkup",
	}, "decides with machines; reaches the outside only through interfaces of its own"},
	{"faces", false, []string{
		"hotparam/middleware", "hotparam/checkapi", "hotparam/proxy", "hotparam/mirror", "hotparam/admin",
	}, "one way in each; what two of them need belongs a floor below"},
	{"doors", true, []string{"cmd", "docs", "examples", "test"}, "wire everything, hold no logic of their own"},
}

// owners are the packages that only one room may import.
var owners = map[string]struct{ room, why string }{
	"github.com/redis/go-redis/v9":                   {"hotparam/redisstore", "one place knows how Redis fails"},
	module + "/lua":                                  {"hotparam/redisstore", "scripts run in Redis only"},
	"github.com/IBM/sarama":                          {"hotparam/kafka", "its traps are handled once"},
	"github.com/cactus/go-statsd-client/v5/statsd":   {"hotparam/statsd", "its traps are handled once"},
	"github.com/prometheus/client_golang/prometheus": {"hotparam/admin", "running things expose Stats() and know no metrics library"},
}

// pure rooms take time as an argument and touch nothing outside.
var pure = []string{
	"hotparam", "hotparam/canon", "hotparam/limit", "hotparam/rules", "hotparam/topk", "hotparam/window", "hotparam/detect",
	"hotparam/upstream", "hotparam/crowd", "hotparam/hotset", "hotparam/accesslog", "hotparam/daily",
}

type pkg struct {
	Dir          string
	ImportPath   string
	Name         string
	GoFiles      []string
	Imports      []string
	Deps         []string
	TestGoFiles  []string
	XTestGoFiles []string
}

func (p pkg) room() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// list runs go list on the whole module.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,Name,GoFiles,Imports,Deps,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

// floorOf finds the floor of a room; rooms inside a room (limit/limittest,
// cmd/...) belong to it.
func floorOf(room string) int {
	best, length := -1, -1
	for i, f := range floors {
		for _, r := range f.rooms {
			if (room == r || strings.HasPrefix(room, r+"/") && r != "hotparam") && len(r) > length {
				best, length = i, len(r)
			}
		}
	}
	return best
}

// owner is the listed room that a package belongs to.
func owner(room string) string {
	var best string
	for _, f := range floors {
		for _, r := range f.rooms {
			if (room == r || strings.HasPrefix(room, r+"/") && r != "hotparam") && len(r) > len(best) {
				best = r
			}
		}
	}
	return best
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		from := floorOf(p.room())
		if from < 0 {
			t.Errorf("%s stands on no floor: add it to floors, with a word why in docs/ARCHITECTURE.md", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			room, ours := strings.CutPrefix(imp, module+"/")
			if !ours || owner(room) == owner(p.room()) {
				continue
			}
			to := floorOf(room)
			if to > from || to == from && !floors[from].peers {
				t.Errorf("%s (%s) imports %s (%s): imports point down. %s: %s",
					p.room(), floors[from].name, room, floors[to].name, floors[from].name, floors[from].why)
			}
		}
	}
}

func TestOneRoomPerOutsideLibrary(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			for lib, o := range owners {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && owner(p.room()) != o.room {
					t.Errorf("%s imports %s: only %s may: %s", p.room(), imp, o.room, o.why)
				}
			}
		}
	}
}

func TestPureRoomsTouchNothing(t *testing.T) {
	t.Parallel()
	banned := []string{"os", "net/http", "net", "os/exec", "os/signal", "log", "log/slog", "syscall"}
	for _, p := range list(t) {
		if !slices.Contains(pure, p.room()) {
			continue
		}
		for _, imp := range p.Imports {
			// net/http's pattern syntax is re-implemented, not imported, for this law.
			if slices.Contains(banned, imp) {
				t.Errorf("%s is pure and imports %s", p.room(), imp)
			}
		}
		for _, f := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"time.Now(", "time.Since(", "time.After(", "time.NewTicker(", "\tgo func("} {
				if strings.Contains(string(src), call) {
					t.Errorf("%s/%s is pure and says %q: time is an argument", p.room(), f, strings.TrimSpace(call))
				}
			}
		}
	}
}

func TestMiddlewareStaysLight(t *testing.T) {
	t.Parallel()
	heavy := []string{"github.com/IBM/sarama", "google.golang.org/grpc", "github.com/prometheus/client_golang/prometheus", "github.com/redis/go-redis/v9"}
	for _, p := range list(t) {
		if p.room() != "hotparam/middleware" && p.room() != "hotparam/statsd" && p.room() != "hotparam/gate" {
			continue
		}
		for _, dep := range p.Deps {
			for _, h := range heavy {
				if dep == h || strings.HasPrefix(dep, h+"/") {
					t.Errorf("%s compiles %s: a service with the middleware and StatsD must not", p.room(), dep)
				}
			}
		}
	}
}

func TestOnePackageComment(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		var with []string
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc != nil {
				with = append(with, f)
			}
		}
		if len(with) != 1 {
			t.Errorf("%s: %d files carry a package comment %v, want exactly one", p.ImportPath, len(with), with)
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	t.Parallel()
	const most = 300
	for _, p := range list(t) {
		for _, f := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(src), "\n"); n > most {
				t.Errorf("%s/%s has %d lines, more than %d: the room is getting crowded, redesign it", p.room(), f, n, most)
			}
		}
	}
}
