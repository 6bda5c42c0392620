package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/etcdtest"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// follows is the bound on the time until every program has a change.
const follows = time.Second

// fleet is an aggregator and two limiters that read their rules from a store.
type fleet struct {
	t        *testing.T
	store    []string // the settings that name the store
	states   [3]string
	config   string
	admin    [3]string // the aggregator's is the first
	decide   [3]string // the aggregator has no such listener
	programs [3]*program.Process
}

// startFleet starts the programs with the rules of a file, which deny nothing.
func startFleet(t *testing.T, store ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, store: store, config: write(t, "hotparam.yaml", pipelineRules)}
	for i := range f.programs {
		f.admin[i], f.decide[i], f.states[i] = freeport.Addr(t), freeport.Addr(t), t.TempDir()
		f.start(i)
	}
	for _, addr := range f.admin {
		ready(t, addr)
	}
	return f
}

func (f *fleet) start(i int) {
	f.t.Helper()
	args := slices.Concat([]string{"--config", f.config, "--admin.listen", f.admin[i], "--state.dir", f.states[i]},
		f.store)
	if i == 0 {
		f.programs[i] = launch(f.t, "aggregator", append(args, "--statsd.listen", freeport.Addr(f.t), "--history.keep",
			"0")...)
		return
	}
	f.programs[i] = launch(f.t, "limiter-sidecar",
		append(args, "--decide.listen", f.decide[i], "--sidecar.count", "none",
			"--gate.instance", "limiter-"+strconv.Itoa(i), "--gate.budget", budget)...)
}

// rules runs hotparam rules and returns its exit code and its output.
func (f *fleet) rules(args ...string) (int, string) {
	f.t.Helper()
	if slices.Contains([]string{"push", "rollback"}, args[0]) {
		args = append(args, "--yes") // the test removes rules on purpose
	}
	cmd := exec.Command(filepath.Join(program.Ours(f.t), "hotparam"), append([]string{"rules"}, args...)...)
	cmd.Env = append(cmd.Environ(), "HOTPARAM_ADMIN=http://"+f.admin[0])
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

func (f *fleet) mustRun(args ...string) string {
	f.t.Helper()
	code, said := f.rules(args...)
	if code != 0 {
		f.t.Fatalf("rules %v: exit code %d: %s", args, code, said)
	}
	return said
}

// blocking writes a file of rules that deny these topics, and returns its path.
func (f *fleet) blocking(topics ...string) string {
	f.t.Helper()
	text := strings.Replace(pipelineRules, "namespace: e2e\n", "", 1) + "overrides:\n"
	for _, id := range topics {
		text += "  - {key: 'topic?id=" + id + "', action: block}\n"
	}
	return write(f.t, "rules.yaml", text)
}

// denied returns the topics that a limiter denies.
func (f *fleet) denied(i int) string {
	var out []string
	for _, id := range []string{"a", "b", "c"} {
		_, body := do(f.t, http.MethodPost, "http://"+f.decide[i]+"/v1/decide",
			`{"method":"GET","uri":"/topic?id=`+id+`","ip":"192.0.2.1"}`,
			http.Header{"Content-Type": {"application/json"}})
		if strings.Contains(body, `"allowed":false`) {
			out = append(out, id)
		}
	}
	return strings.Join(out, " ")
}

// felt waits until the first limiter denies the topics of one and the second limiter those in two, and checks that this
// took no longer than a change may.
func (f *fleet) felt(when, one, two string) {
	f.t.Helper()
	begin := time.Now()
	program.Await(f.t, 10*time.Second, when+": denied "+one+" and "+two,
		func() bool { return f.denied(1) == one && f.denied(2) == two })
	if took := time.Since(begin); took > follows+slack {
		f.t.Errorf("%s: felt after %v", when, took)
	} else {
		f.t.Logf("%s: felt after %v", when, took.Round(time.Millisecond))
	}
}

// Rules pushed to a store are applied by all limiters within a second, and rules that cannot run are rejected.
func followsTheStore(t *testing.T, f *fleet, away, back func()) {
	f.felt("at first", "", "")
	f.mustRun("push", f.blocking("a"), "--reason", "first")
	f.felt("pushed", "a", "a")
	f.mustRun("push", f.blocking("a", "b"))
	f.felt("pushed again", "a b", "a b")

	for name, text := range map[string]string{"no YAML": "rules: [", "no rules": "ip: {}\n",
		"a setting":         pipelineRules + "redis: {password: secret}\n",
		"another namespace": strings.Replace(pipelineRules, "e2e", "olds", 1)} {
		if code, said := f.rules("push", write(t, "bad.yaml", text)); code == 0 || !strings.Contains(said, "422") ||
			strings.Contains(said, "secret") {
			t.Errorf("%s: exit code %d: %s", name, code, said)
		}
	}
	if code, said := f.rules("push", f.blocking("c"), "--on", "1"); code == 0 || !strings.Contains(said, "412") {
		t.Errorf("on top of an old version: exit code %d: %s", code, said)
	}
	f.felt("refused", "a b", "a b")

	f.mustRun("rollback", "1")
	f.felt("rolled back", "a", "a")
	f.mustRun("push", f.blocking("b"))
	f.felt("pushed after a rollback", "b", "b")
	if said := f.mustRun("history"); strings.Count(said, "\n") != 5 || !strings.Contains(said, "back to version 1") ||
		!strings.Contains(said, "first") {
		t.Errorf("history: %s", said)
	}
	program.Await(t, time.Minute, "both limiters report version 4", func() bool {
		_, said := f.rules("status")
		return strings.Contains(said, "limiter-1") && strings.Contains(said, "limiter-2") &&
			strings.Count(said, "  4     -") == 4 && strings.Contains(said, "same")
	})

	away()
	f.programs[1].Stop()
	f.start(1)
	ready(t, f.admin[1])
	if one, two := f.denied(1), f.denied(2); one != "b" || two != "b" {
		t.Errorf("restarted without the store: denied %q and %q; want the last good copy", one, two)
	}
	if _, body := get(t, "http://"+f.admin[1]+"/readyz?verbose"); !strings.Contains(body, "version 4 of ") {
		t.Errorf("readiness does not say which rules hold: %s", body)
	}
	back()
	program.Await(t, time.Minute, "rules pushed again", func() bool {
		code, _ := f.rules("push", f.blocking("a", "c"))
		return code == 0
	})
	program.Await(t, time.Minute, "rules felt after the store came back",
		func() bool { return f.denied(1) == "a c" && f.denied(2) == "a c" })
}

func TestRules_FromRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	f := startFleet(t, "--rules", "redis:", "--redis.addr", r.Addr())
	followsTheStore(t, f, r.Kill, r.Relaunch)
}

func TestRules_FromEtcd(t *testing.T) {
	t.Parallel()
	etcd, r := etcdtest.Start(t), redistest.Start(t)
	f := startFleet(t, "--rules", "etcd:/hotparam/rules", "--etcd.addr", etcd.Addr(), "--redis.addr", r.Addr())
	followsTheStore(t, f, etcd.Kill, etcd.Launch)
}

// A single process follows a store too: it applies rules at once, has them after a restart, and is not ready while it
// cannot run the rules that the other programs run.
func TestServe_FollowsRulesFromRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	f := &fleet{t: t, admin: [3]string{admin}, config: write(t, "hotparam.yaml", pipelineRules)}
	args := []string{
		"serve", "--config", f.config, "--upstream", upstream.URL, "--listen", addr,
		"--admin.listen", admin, "--state.dir", t.TempDir(), "--rules", "redis:", "--redis.addr", r.Addr(),
	}
	p := launch(t, "hotparam", args...)
	ready(t, admin)
	many, err := os.ReadFile(f.blocking("a"))
	if err != nil {
		t.Fatal(err)
	}
	f.mustRun("push",
		write(t, "many.yaml", strings.Replace(string(many), "rate: 50,", "rate: 50, max_rate: 10000,", 1)))
	blocked := func() bool {
		status, _ := get(t, "http://"+addr+"/topic?id=a")
		return status == http.StatusTooManyRequests
	}
	program.Await(t, time.Minute, "the pushed rules", blocked)
	p.Stop()
	launch(t, "hotparam", args...)
	ready(t, admin)
	if !blocked() {
		t.Error("the pushed rules are gone after a restart")
	}
	if said := f.mustRun("status"); strings.Count(said, "  1     -") != 2 {
		t.Errorf("status: %s", said)
	}

	// This program, as a newer version might, cannot run the rules that the others run.
	other := freeport.Addr(t)
	launch(t, "hotparam", "serve", "--config", f.config, "--upstream", upstream.URL, "--listen", freeport.Addr(t),
		"--admin.listen", other, "--state.dir", t.TempDir(), "--rules", "redis:", "--redis.addr", r.Addr(),
		"--detect.counters", "1000")
	ready(t, other)
	if status, body := get(t, "http://"+other+"/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "version 1 of redis: is rejected: detect: rule") {
		t.Errorf("a start that rejects the rules of the store: %d %s", status, body)
	}
	f.mustRun("push", f.blocking("b"))
	program.Await(t, time.Minute, "rules that both run", func() bool {
		status, _ := get(t, "http://"+other+"/readyz")
		return status == http.StatusOK
	})
}

// A collector that reads requests reports the parameter that no request has, and the parameters that they have instead.
func TestCollector_ReportsMissingParameter(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	begin := time.Now().Add(-time.Minute)
	for i := range 20 {
		fmt.Fprintf(&lines, "192.0.2.1 - - [%s] \"GET /topic?id=%d HTTP/1.1\" 200 1 \"-\" \"-\"\n",
			begin.Add(time.Duration(i)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), i)
	}
	log, admin := write(t, "access.log", ""), freeport.Addr(t)
	p := launch(t, "collector", "--config", write(t, "hotparam.yaml",
		"rules: [{name: topic, match: {path: /topic}, params: [topic_id], hot: {rate: 20}, limit: {rate: 10}}]\n"),
		"--accesslog.file", log, "--accesslog.format", "combined", "--statsd.addr", freeport.Addr(t),
		"--admin.listen", admin)
	ready(t, admin)
	appendTo(t, log, lines.String())
	program.Await(t, time.Minute, "a note about the rule", func() bool {
		return strings.Contains(p.Said(), "no request had topic_id") && strings.Contains(p.Said(), "seen: id")
	})
}
