package architecture

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

// layers lists the packages from the bottom up. A package imports only packages of lower layers, or of its own layer if
// peers is true.
var layers = []struct {
	name     string
	peers    bool // packages of this layer may import each other
	packages []string
	why      string
}{
	{"types", false, []string{"hotparam/hottype"}, "all packages share them, so they depend on none"},
	{"scripts", false, []string{"lua"}, "text only"},
	{"waiting and reading", false, []string{"internal/wait", "internal/textfile", "internal/netset",
		"internal/persistent", "internal/protofield"},
		"timers, small files, sets of networks, shared collections and fields of messages only"},
	{"logging", false, []string{"internal/logbound"}, "bounds the lines of all packages, and knows none of them"},
	{"logic", true, []string{
		"hotparam/limit", "hotparam/rule", "internal/conf", "internal/limitcore", "internal/canon",
		"internal/parseas", "internal/report", "internal/rules",
		"internal/hotset", "internal/clientaddr",
		"internal/counting/accesslog", "internal/counting/arrival", "internal/counting/batchqueue",
		"internal/counting/clientsketch",
		"internal/counting/origins", "internal/counting/unpack",
		"internal/detection/heavyhitters", "internal/detection/window", "internal/detection/detect",
		"internal/detection/history",
		"internal/deciding/explain", "internal/deciding/fairness", "internal/deciding/adaptive",
		"internal/deciding/costs", "internal/deciding/verdict", "internal/deciding/visitorpass",
		"internal/serving/httplimit", "internal/serving/auth",
	}, "pure logic that can be tested like a table"},
	{"files", false, []string{"internal/tlsfiles", "internal/dirlock", "internal/testing/freeport"},
		"certificates are read, directories held and ports for tests found in one way"},
	{"connection", false, []string{"internal/storage/redisclient"}, "the feed and the limits share one way to Redis"},
	{"transport and storage", false, []string{
		"internal/counting/tail", "internal/transport/statsd", "internal/transport/kafka",
		"internal/transport/graphite", "internal/transport/reversedns",
		"internal/storage/rediscontrol", "internal/storage/redislimits", "internal/storage/filestore",
		"internal/storage/historystore", "internal/storage/etcdrules", "internal/operator/carbon",
		"internal/operator/udpstat",
		"internal/serving/listener",
	}, "one outside system each; two that know each other cannot be replaced alone"},
	{"deciding", true, []string{
		"internal/counting/tally", "internal/deciding/gate", "internal/deciding/guarded",
		"internal/detection/aggregate", "internal/operator/replay", "internal/operator/learn",
		"internal/operator/doctor",
		"internal/serving/held", "internal/serving/respcache",
	}, "uses logic; reaches the outside only through interfaces of its own"},
	{"serving and operator", false, []string{
		"internal/serving/middleware", "internal/serving/decisionapi", "internal/serving/proxy",
		"internal/serving/mirror", "internal/serving/forwardauth", "internal/serving/envoy", "internal/serving/spoe",
		"internal/serving/clientjs", "internal/serving/requestlog", "internal/serving/edge",
		"internal/operator/admin", "internal/operator/notify",
	}, "one way in each; what two of them need belongs a layer below"},
	{"metrics", false, []string{"internal/operator/metrics"},
		"knows the statistics of all packages below, and nothing knows it but the app"},
	{"library", true, []string{"hotparam", "hotparam/adapter", "hotparam/admin", "hotparam/redislimit",
		"hotparam/shared", "internal/lifecycle", "internal/pipeline"},
		"imported by services: wires the packages below, knows no settings or programs"},
	{"app", true, []string{"internal/app/config", "internal/app/program", "internal/app/demo", "internal/app/serve",
		"internal/app/output"},
		"settings, wiring and life cycle of programs in one process"},
	{"fleet", false, []string{"internal/app/fleet"}, "wiring of the programs that work together through servers"},
	{"testing", true, []string{"internal/testing", "hotparam/limit/limittest"},
		"servers, ports, simulated clients and laws for tests"},
	{"programs", true, []string{"cmd", "examples", "adapters", "test"},
		"wire everything, hold no logic of their own"},
}

// adminImports lists the packages of the admin listener, which imports all of them, and the others that each of them
// may import.
var adminImports = map[string][]string{
	"internal/operator/admin/web":     {},
	"internal/operator/admin/changes": {"web"},
	"internal/operator/admin/past":    {"web"},
	"internal/operator/admin/live":    {"web", "changes", "past"},
}

// owners are the libraries that only one package may import.
// shared, redislimit and examples know the type of the caller's client, and make no calls.
var owners = map[string]struct {
	by  []string
	why string
}{
	"github.com/redis/go-redis/v9": {
		[]string{"internal/storage/redisclient", "internal/storage/rediscontrol", "internal/storage/redislimits",
			"internal/testing", "hotparam/shared", "hotparam/redislimit", "examples"}, "storage knows how Redis fails"},
	module + "/lua": {
		[]string{"internal/storage/rediscontrol", "internal/storage/redislimits"}, "scripts run in Redis only"},
	"github.com/IBM/sarama": {[]string{"internal/transport/kafka"},
		"its traps are handled once"},
	"github.com/cactus/go-statsd-client/v5/statsd": {[]string{"internal/transport/statsd"},
		"its traps are handled once"},
	"github.com/prometheus/client_golang/prometheus": {[]string{"internal/operator/metrics"},
		"packages expose Stats() and know no metrics library"},
	"github.com/pires/go-proxyproto": {[]string{"internal/serving/listener"},
		"one listener decides whose header is believed"},
	"github.com/gaissmai/bart": {[]string{"internal/netset"},
		"a generic type is compiled again in each package whose types contain it"},
	"go.etcd.io/etcd": {[]string{"internal/testing"},
		"nine seconds of compiling for four requests: etcdrules makes them over gRPC"},
	"github.com/envoyproxy/go-control-plane": {nil,
		"eleven seconds of compiling for a schema and a dozen constants: package envoy has them, and tests compare them"},
	"google.golang.org/grpc": {[]string{"internal/serving/envoy", "internal/storage/etcdrules"},
		"who imports the library compiles none of it"},
}

// waits is the one file of a pure package that reads the clock, because it waits.
const waits = "hotparam/limit/wait.go"

// pure packages take time as an argument and touch nothing outside.
var pure = []string{
	"hotparam/hottype", "hotparam/limit", "hotparam/rule", "internal/limitcore", "internal/canon", "internal/conf",
	"internal/report", "internal/rules", "internal/parseas",
	"internal/hotset", "internal/clientaddr",
	"internal/counting/accesslog", "internal/counting/arrival", "internal/counting/batchqueue",
	"internal/counting/clientsketch",
	"internal/counting/origins",
	"internal/detection/heavyhitters", "internal/detection/window", "internal/detection/detect",
	"internal/detection/history", "internal/deciding/explain", "internal/deciding/fairness",
	"internal/deciding/adaptive", "internal/deciding/costs", "internal/deciding/visitorpass",
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

func (p pkg) path() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// list lists the packages of the product's module and of test/.
func list(t *testing.T) []pkg {
	t.Helper()
	return append(listModule(t, "../.."), listModule(t, "..")...)
}

// listModule runs go list on one module.
func listModule(t *testing.T, dir string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,Name,GoFiles,Imports,Deps,TestGoFiles,XTestGoFiles",
		"./...")
	cmd.Dir = dir
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

// TestLightCommands_ImportNoClientOfAServer keeps the first two commands of the README quick to compile: cmd/demo and
// cmd/serve run in one process, so they need none of these libraries. The last two are 45 MB of archives.
func TestLightCommands_ImportNoClientOfAServer(t *testing.T) {
	t.Parallel()
	heavy := []string{"github.com/redis/go-redis", "github.com/IBM/sarama", "github.com/cactus/go-statsd-client",
		"go.etcd.io", "modernc.org", "google.golang.org/grpc", "github.com/envoyproxy", "github.com/rivo/tview",
		"github.com/klauspost", "github.com/ulikunitz"}
	missing := []string{"cmd/demo", "cmd/serve"}
	for _, p := range list(t) {
		light := slices.Index(missing, p.path())
		if light < 0 {
			continue
		}
		missing = slices.Delete(missing, light, light+1)
		for _, dep := range p.Deps {
			if slices.ContainsFunc(heavy, func(h string) bool { return strings.HasPrefix(dep, h) }) {
				t.Errorf("%s compiles %s: package fleet has what joins servers, and hands it to package program; "+
					"package unpack has what reads compressed logs", p.path(), dep)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("there is no %v", missing)
	}
}

// find returns the listed package that a package belongs to, and its layer, or -1 if there is no such package. Packages
// inside a listed one (admin/web, cmd/...) belong to it.
func find(path string) (listed string, layer int) {
	layer = -1
	for i, l := range layers {
		for _, p := range l.packages {
			if (path == p || strings.HasPrefix(path, p+"/")) && len(p) > len(listed) {
				listed, layer = p, i
			}
		}
	}
	return listed, layer
}

func TestImportsOfPackages_PointDown(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		importer, from := find(p.path())
		if from < 0 {
			t.Errorf("%s belongs to no layer: add it to layers, with a word why in docs/architecture.md", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			path, ours := strings.CutPrefix(imp, module+"/")
			imported, to := find(path)
			if !ours || imported == importer {
				continue
			}
			if to > from || to == from && !layers[from].peers {
				t.Errorf("%s (%s) imports %s (%s): imports point down. %s: %s",
					p.path(), layers[from].name, path, layers[to].name, layers[from].name, layers[from].why)
			}
		}
	}
}

// TestAdminImportsPointDown holds the packages below the admin listener to adminImports: the list is complete.
func TestAdminImportsPointDown(t *testing.T) {
	t.Parallel()
	const dir = "internal/operator/admin/"
	for _, p := range listModule(t, root) {
		may, ok := adminImports[p.path()]
		if !ok {
			if strings.HasPrefix(p.path(), dir) {
				t.Errorf("%s: add it to adminImports", p.path())
			}
			continue
		}
		for _, imp := range p.Imports {
			if name, ours := strings.CutPrefix(imp, module+"/"+dir); ours && !slices.Contains(may, name) ||
				imp+"/" == module+"/"+dir {
				t.Errorf("%s imports %s; it may import %v of them", p.path(), imp, may)
			}
		}
	}
}

// TestTestHelpersLiveInTesting finds packages of internal/ that only tests import and that are elsewhere than in
// internal/testing.
func TestTestHelpersLiveInTesting(t *testing.T) {
	t.Parallel()
	const testing = "internal/testing"
	pkgs := listModule(t, root)
	imported := map[string]bool{}
	for _, p := range pkgs {
		for _, imp := range p.Imports {
			if !strings.HasPrefix(p.path(), testing) {
				imported[imp] = true
			}
		}
	}
	for _, p := range pkgs {
		if strings.HasPrefix(p.path(), "internal/") && !strings.HasPrefix(p.path(), testing) &&
			!imported[p.ImportPath] {
			t.Errorf("only tests import %s: move it to %s", p.path(), testing)
		}
	}
}

func TestOnePackagePerOutsideLibrary(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		importer, _ := find(p.path())
		for _, imp := range p.Imports {
			for lib, owner := range owners {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.Contains(owner.by, importer) {
					t.Errorf("%s imports %s: only %v may: %s", p.path(), imp, owner.by, owner.why)
				}
			}
		}
	}
}

func TestPurePackagesTouchNothing(t *testing.T) {
	t.Parallel()
	banned := []string{"os", "net/http", "net", "os/exec", "os/signal", "log", "log/slog", "syscall"}
	for _, p := range list(t) {
		if !slices.Contains(pure, p.path()) {
			continue
		}
		for _, imp := range p.Imports {
			// canon implements the pattern syntax of net/http itself so that this holds.
			if slices.Contains(banned, imp) {
				t.Errorf("%s is pure and imports %s", p.path(), imp)
			}
		}
		for _, f := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if p.path()+"/"+f == waits {
				continue
			}
			for _, call := range []string{"time.Now(", "time.Since(", "time.After(", "time.NewTicker(", "\tgo func("} {
				if strings.Contains(string(src), call) {
					t.Errorf("%s/%s is pure and says %q: time is an argument", p.path(), f, strings.TrimSpace(call))
				}
			}
		}
	}
}

func TestMiddleware_CompilesNoHeavyLibrary(t *testing.T) {
	t.Parallel()
	heavy := []string{"github.com/IBM/sarama", "google.golang.org/grpc",
		"github.com/prometheus/client_golang/prometheus", "github.com/redis/go-redis/v9",
		module + "/internal/operator"}
	light := []string{"hotparam", "internal/serving/middleware", "internal/transport/statsd", "internal/deciding/gate"}
	for _, p := range list(t) {
		if !slices.Contains(light, p.path()) {
			continue
		}
		for _, dep := range p.Deps {
			for _, h := range heavy {
				if dep == h || strings.HasPrefix(dep, h+"/") {
					t.Errorf("%s compiles %s: a service with the middleware and StatsD must not", p.path(), dep)
				}
			}
		}
	}
}

func TestPackages_HaveOneComment(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		var with []string
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil,
				parser.PackageClauseOnly|parser.ParseComments)
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

func TestFiles_HaveFewLines(t *testing.T) {
	t.Parallel()
	const most = 300
	for _, p := range list(t) {
		for _, f := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(src), "\n"); n > most {
				t.Errorf("%s/%s has %d lines, more than %d: split or redesign the package", p.path(), f, n, most)
			}
		}
	}
}
