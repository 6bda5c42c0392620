package others

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	pb_struct "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// The service is built with the requirements of its own module, because it does not compile with later ones of other
// suites.
const (
	sourceOfRatelimit  = "github.com/envoyproxy/ratelimit"
	versionOfRatelimit = "v1.4.1-0.20260122083618-3fb702589d36"
)

// limitsFile is a file of limits of envoyproxy/ratelimit.
type limitsFile struct {
	Domain      string       `yaml:"domain"`
	Descriptors []descriptor `yaml:"descriptors"`
}

type descriptor struct {
	Key       string `yaml:"key"`
	Value     string `yaml:"value"`
	RateLimit *struct {
		Requests uint32 `yaml:"requests_per_unit"`
	} `yaml:"rate_limit"`
	Descriptors []descriptor `yaml:"descriptors"`
}

// The rate limit service answers as envoyproxy/ratelimit does, to its own client too, by the files of limits of its
// examples and tests.
func TestRateLimitService_AnswersAsEnvoyproxyRatelimit(t *testing.T) {
	s := begin(t, "envoyproxy/ratelimit", sourceOfRatelimit+"=="+versionOfRatelimit)
	dir, bin := downloadRatelimit(t)
	service, client := filepath.Join(bin, "service_cmd"), filepath.Join(bin, "client_cmd")
	for _, name := range []string{"examples/ratelimit/config/config.yaml", "examples/ratelimit/config/example.yaml",
		"test/config/basic_config.yaml", "test/config/wildcard.yaml", "test/config/share_threshold.yaml",
		"test/config/shadowmode_config.yaml"} {
		file := filepath.Join(dir, name)
		own, theirs := startOwnService(t, file), startTheirService(t, service, file)
		compareServices(t, s, name, file, dial(t, own), dial(t, theirs))
		compareClients(t, s, name, file, client, own, theirs)
	}
	for _, name := range []string{"bad_limit_unit", "bad_yaml", "duplicate_key", "empty_domain", "empty_key",
		"misspelled_key", "misspelled_key2", "non_map_list", "non_string_key", "replaces_empty", "replaces_self",
		"unlimited_with_unit"} {
		file := filepath.Join(dir, "test/config", name+".yaml")
		cmd := exec.CommandContext(t.Context(), filepath.Join(program.Ours(t), "hotparam"), "serve", "--upstream",
			"http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin.listen", "", "--state.dir", t.TempDir(),
			"--envoy.listen", freeport.Addr(t), "--envoy.limits", file)
		s.record("refuses "+name, refuses(cmd))
	}
}

// downloadRatelimit returns the folder of the module in the cache of modules, and a folder with its programs.
func downloadRatelimit(t *testing.T) (dir, bin string) {
	t.Helper()
	bin = program.Fetch(t, "ratelimit-"+versionOfRatelimit, func(dir string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "go", "install",
			sourceOfRatelimit+"/src/service_cmd@"+versionOfRatelimit,
			sourceOfRatelimit+"/src/client_cmd@"+versionOfRatelimit)
		cmd.Env = append(os.Environ(), "GOBIN="+dir)
		return cmd
	})
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", sourceOfRatelimit+"@"+
		versionOfRatelimit).Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatal(err)
	}
	return module.Dir, bin
}

// refuses returns an error unless a program ends because of its settings.
func refuses(cmd *exec.Cmd) error {
	stop := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop.Stop()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() < 1 {
		return fmt.Errorf("it runs: %v\n%s", err, out)
	}
	return nil
}

func startOwnService(t *testing.T, file string) (addr string) {
	t.Helper()
	addr = freeport.Addr(t)
	serveFor(t, "rules: [{name: none, match: {path: /none}, params: [], hot: {rate: 1}}]", "http://127.0.0.1:1",
		"--envoy.listen", addr, "--envoy.limits", file)
	return addr
}

func startTheirService(t *testing.T, service, file string) (addr string) {
	t.Helper()
	root := t.TempDir()
	config := filepath.Join(root, "ratelimit", "config")
	data, err := os.ReadFile(file)
	if err == nil {
		err = errors.Join(os.MkdirAll(config, 0o755), os.WriteFile(filepath.Join(config, "limits.yaml"), data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	addr = freeport.Addr(t)
	_, grpcPort, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), service)
	cmd.Env = append(os.Environ(), "USE_STATSD=false", "LOG_LEVEL=error", "RUNTIME_ROOT="+root,
		"RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp",
		"REDIS_URL="+redistest.Start(t).Addr(), "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		fmt.Sprintf("PORT=%d", freeport.Port(t)), fmt.Sprintf("DEBUG_PORT=%d", freeport.Port(t)), "GRPC_PORT="+grpcPort)
	program.Start(t, cmd)
	awaitPort(t, addr)
	return addr
}

func awaitPort(t *testing.T, addr string) {
	t.Helper()
	program.Await(t, time.Minute, addr, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func dial(t *testing.T, addr string) pb.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewRateLimitServiceClient(conn)
}

// path is the entries of a descriptor, and the limit at its end, or 0 if that is unknown.
type path struct {
	entries []*pb_struct.RateLimitDescriptor_Entry
	limit   uint32
}

// pathsOf returns paths to all descriptors of a file, each with the value of the file and with a value of its own.
func pathsOf(list []descriptor, before []*pb_struct.RateLimitDescriptor_Entry) (paths []path) {
	for _, d := range list {
		values := []string{d.Value, d.Value + "x"}
		if d.Value == "" || strings.Contains(d.Value, "*") {
			values = []string{strings.ReplaceAll(d.Value, "*", "some") + "1", "other"}
		}
		for _, v := range values {
			entries := append(slices.Clone(before), &pb_struct.RateLimitDescriptor_Entry{Key: d.Key, Value: v})
			p := path{entries: entries}
			if d.RateLimit != nil && v == values[0] {
				p.limit = d.RateLimit.Requests
			}
			paths = append(paths, p)
			if v == values[0] {
				paths = append(paths, pathsOf(d.Descriptors, entries)...)
			}
		}
	}
	return paths
}

func (p path) String() string {
	var parts []string
	for _, e := range p.entries {
		parts = append(parts, e.Key+"="+e.Value)
	}
	return strings.Join(parts, ",")
}

func read(t *testing.T, file string) (f limitsFile) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// compareServices asks both services for each path of a file, up to its limit and beyond, and together.
func compareServices(t *testing.T, s *suite, name, file string, own, theirs pb.RateLimitServiceClient) {
	t.Helper()
	f := read(t, file)
	paths := pathsOf(f.Descriptors, nil)
	ask := func(hits uint32, paths ...path) error {
		request := &pb.RateLimitRequest{Domain: f.Domain, HitsAddend: hits}
		for _, p := range paths {
			request.Descriptors = append(request.Descriptors, &pb_struct.RateLimitDescriptor{Entries: p.entries})
		}
		a, err := own.ShouldRateLimit(t.Context(), request)
		b, theirErr := theirs.ShouldRateLimit(t.Context(), request)
		if err != nil || theirErr != nil {
			return fmt.Errorf("own %v, theirs %v", err, theirErr)
		}
		if got, want := textOf(a), textOf(b); got != want {
			return fmt.Errorf("%d hits: %s, in theirs %s", hits, got, want)
		}
		return nil
	}
	for i, p := range paths {
		if slices.ContainsFunc(paths[:i], func(q path) bool { return q.String() == p.String() }) {
			continue
		}
		fault := withinSecond(func() (fault error) {
			for _, hits := range []uint32{1, max(p.limit, 2) - 1, 1, 1} {
				fault = errors.Join(fault, ask(hits, p))
			}
			return fault
		})
		// Hits of a denied call count in theirs, so no call exceeds the rest of a limit in part.
		s.record(name+": "+p.String(), fault)
	}
	s.record(name+": all in one call", withinSecond(func() error { return ask(1, paths...) }), "all in one call")
	s.record(name+": no such descriptor", ask(1, path{entries: []*pb_struct.RateLimitDescriptor_Entry{{Key: "none",
		Value: "none"}}}))
}

// withinSecond compares answers to calls while no window ends. If a second ended meanwhile, which only a machine that
// stands still causes, and the answers differ, it tries again in a new minute.
func withinSecond(compare func() error) error {
	now := time.Now()
	if end := now.Truncate(time.Second).Add(time.Second); end.Sub(now) < 500*time.Millisecond {
		<-time.After(end.Sub(now))
	}
	began := time.Now().Truncate(time.Second)
	fault := compare()
	if ended := time.Now(); fault != nil && !ended.Truncate(time.Second).Equal(began) {
		<-time.After(ended.Truncate(time.Minute).Add(time.Minute).Sub(ended))
		fault = compare()
	}
	return fault
}

// textOf returns an answer without times, which differ by the moment of the call, and without the names of limits,
// which envoyproxy/ratelimit leaves empty.
func textOf(r *pb.RateLimitResponse) string {
	text := r.OverallCode.String()
	for _, st := range r.Statuses {
		text += fmt.Sprintf(" [%s", st.Code)
		if l := st.CurrentLimit; l != nil {
			text += fmt.Sprintf(", %d per %s, %d remain", l.RequestsPerUnit, l.Unit, st.LimitRemaining)
		}
		text += "]"
	}
	return text
}

// ofClient matches the answer that the client prints.
var ofClient = regexp.MustCompile(`(?m)^response: .*$`)

// notCompared matches spaces, which vary by design, and what textOf leaves out.
var notCompared = regexp.MustCompile(`duration_until_reset:\{[^}]*\}|name:"[^"]*"|\s+`)

// compareClients has the client of envoyproxy/ratelimit ask both services for a descriptor without a limit and for one
// of the file.
func compareClients(t *testing.T, s *suite, name, file, client, own, theirs string) {
	t.Helper()
	f := read(t, file)
	answerOf := func(addr, descriptors string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), client, "-dial_string", addr, "-domain", f.Domain, "-descriptors",
			descriptors)
		out, err := cmd.CombinedOutput()
		text := ofClient.FindString(string(out))
		if err != nil || text == "" {
			t.Errorf("%v: %v\n%s", cmd.Args, err, out)
		}
		return notCompared.ReplaceAllString(text, "")
	}
	for _, descriptors := range []string{"nobody=knows", f.Descriptors[0].Key + "=of-the-client"} {
		var fault error
		if got, want := answerOf(own, descriptors), answerOf(theirs, descriptors); got != want {
			fault = fmt.Errorf("%s, in theirs %s", got, want)
		}
		s.record(fmt.Sprintf("%s, client: %s", name, descriptors), fault)
	}
}
