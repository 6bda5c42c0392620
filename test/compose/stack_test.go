package compose

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// These are the defaults of docker-compose.yml; no log may contain one of them.
const (
	adminToken    = "compose-dashboard"
	redisPassword = "compose-redis-password"
	decideToken   = "compose-decisions"
)

// docker runs a command and returns its output.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	for try := 1; ; try++ {
		out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
		if err == nil {
			return string(out)
		}
		// The kernel's freezer fails on a process that is just starting another one; runc thaws the rest.
		if try < 10 && strings.Contains(string(out), "unable to freeze") {
			continue
		}
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func container(service string) string { return "hotparam-" + service }

// ask asks the admin listener of a container by its address on the bridge. The status is 0 if there was no response.
func ask(t *testing.T, name, port, path string) (int, string) {
	t.Helper()
	addr := strings.TrimSpace(docker(t, "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
		container(name)))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+":"+port+path, nil)
	if err != nil {
		return 0, err.Error() // a container that does not run has no address
	}
	req.SetBasicAuth("", adminToken)
	res, err := (&http.Client{Timeout: 3 * time.Second}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

var adminPorts = map[string]string{"aggregator-1": "9180", "collector-1": "9181", "limiter-sidecar-1": "9182",
	"limiter-sidecar-2": "9182"}

func ready(t *testing.T, name string) bool {
	status, _ := ask(t, name, adminPorts[name], "/readyz")
	return status == http.StatusOK
}

// gauge reports whether a metric has a value.
func gauge(t *testing.T, name, metric, value string) bool {
	_, body := ask(t, name, adminPorts[name], "/metrics")
	return strings.Contains(body, "\n"+metric+" "+value+"\n")
}

// page reports whether a line of the status that the dashboard shows is bad.
func page(t *testing.T, name, line string) bool {
	_, body := ask(t, name, adminPorts[name], "/readyz?verbose")
	var answer struct {
		Status []struct {
			Name string
			OK   bool
		}
	}
	_ = json.Unmarshal([]byte(body), &answer) // no answer, no line
	for _, s := range answer.Status {
		if s.Name == line && !s.OK {
			return true
		}
	}
	return false
}

// logged reports whether a container's log has a text since a moment.
func logged(t *testing.T, name, text string, since time.Time) bool {
	t.Helper()
	return strings.Contains(docker(t, "logs", "--since", since.Format(time.RFC3339Nano), container(name)), text)
}

// hot is the answer about all limiters together.
type hot struct {
	Keys   []struct{ Key string }
	Totals struct{ Limiters int }
}

func whatIsHot(t *testing.T) (h hot) {
	_, body := ask(t, "aggregator-1", "9180", "/v1/hot")
	_ = json.Unmarshal([]byte(body), &h) // no answer: nothing is hot
	return h
}

// second is a line of the load: a second of its visitors.
type second struct{ quietOK, quietDenied, viralOK, viralDenied, failed int }

// secondOf reads a line such as "quiet 540 ok 1 failed  viral 58 ok 842 denied". Numbers that are 0 are not in the
// line.
func secondOf(line string) (s second, ok bool) {
	counts := map[string]int{}
	fields, kind := strings.Fields(line), ""
	for i, text := range fields {
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && kind != "" && i+1 < len(fields):
			counts[kind+" "+fields[i+1]] = n
		case err != nil && slices.Contains([]string{"quiet", "viral", "crawlers"}, text):
			kind = text
		}
	}
	failed := counts["quiet failed"] + counts["viral failed"] + counts["crawlers failed"]
	return second{counts["quiet ok"], counts["quiet denied"], counts["viral ok"], counts["viral denied"], failed},
		len(counts) > 0
}

func TestLinesOfTheLoad(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]second{
		"quiet 540 ok  crawlers 15 ok 45 denied\n":                                             {quietOK: 540},
		"quiet 540 ok 2 denied 1 failed  viral 58 ok 842 denied 3 failed  crawlers 4 failed\n": {540, 2, 58, 842, 8},
		"viral 7 denied\n": {viralDenied: 7}, "time=12 level=WARN msg=\"quiet 1\"\n": {}, "\n": {},
	} {
		if got, ok := secondOf(line); got != want || ok != (want != second{}) {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
}

func load(t *testing.T, since time.Time) (list []second) {
	t.Helper()
	for line := range strings.Lines(docker(t, "logs", "--since", since.Format(time.RFC3339Nano), container("load-1"))) {
		if s, ok := secondOf(line); ok {
			list = append(list, s)
		}
	}
	return list
}

// await polls until an event, and returns how long it took. The limit is generous, because the containers share their
// processors with other programs of the machine.
func await(t *testing.T, what string, f func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !f() {
		if time.Since(began) > 10*time.Minute {
			t.Fatalf("waited %v for: %s\n%s", time.Since(began), what, docker(t, "compose", "ps", "-a"))
		}
		<-time.After(200 * time.Millisecond)
	}
	return time.Since(began)
}

func isViral(h hot) bool { return len(h.Keys) == 1 && h.Keys[0].Key == "topic?id=4242" }

func normal(t *testing.T) bool {
	for name := range adminPorts {
		if !ready(t, name) {
			return false
		}
	}
	return whatIsHot(t).Totals.Limiters == 2 && !page(t, "limiter-sidecar-1", "breaker") &&
		!page(t, "limiter-sidecar-1", "hot set")
}

func TestStack(t *testing.T) {
	if os.Getenv("HOTPARAM_COMPOSE") == "" {
		t.Skip("test/compose/run.sh starts the stack that this judges")
	}
	t.Logf("all ready after %.0f s", await(t, "all to be ready", func() bool { return normal(t) }).
		Seconds())
	written(t, time.Time{}) // the logs of the start contain no secret either
	began := time.Now()
	t.Run("viral", judgeViral)
	t.Run("doctor", judgeDoctor)
	await(t, "a minute of logs", func() bool { return time.Since(began) > time.Minute })
	lasted, quiet, breaking := time.Since(began), written(t, began), time.Now()
	t.Run("breaks", func(t *testing.T) {
		for _, b := range breaks {
			b.judge(t)
		}
	})
	t.Run("logs", func(t *testing.T) { judgeLogs(t, quiet, lasted, written(t, breaking)) })
}

// The viral topic is found, and both sidecars together limit it to 50/s; no
// request for another topic is denied.
func judgeViral(t *testing.T) {
	began := time.Now()
	await(t, "topic 4242 to be hot", func() bool {
		return isViral(whatIsHot(t))
	})
	await(t, "three seconds of it at its limit", func() bool {
		held := 0
		for _, s := range load(t, began) {
			if s.viralDenied > 100 && s.viralOK <= 75 {
				held++
			}
		}
		return held >= 3
	})
	for _, s := range load(t, began) {
		if s.quietDenied > 0 {
			t.Errorf("readers of other topics were refused: %+v", s)
		}
	}
	await(t, "the history of topic 4242 in Graphite", func() bool {
		res, err := http.Get(
			"http://127.0.0.1:8080/render?target=stats_counts.hotparam.topic.hot_param.id%3D4242&from=-10min&format=json&noCache=true")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return regexp.MustCompile(`\[[1-9][0-9.]*, `).Match(body)
	})
}

// hotparam doctor finds nothing that fails in a stack that works. A busy machine
// may keep one question waiting for too long.
func judgeDoctor(t *testing.T) {
	var report string
	await(t, "a report without failure", func() bool {
		out, err := exec.CommandContext(t.Context(), "docker", "compose", "exec", "-T", "aggregator",
			"/hotparam", "doctor", "-q", "--statsd.addr", "graphite:8125", "--statsd.admin", "graphite:8126").
			CombinedOutput()
		if report = string(out); err != nil {
			t.Log(report)
		}
		return err == nil
	})
	t.Log(report)
}

// written returns the number of bytes that each container has logged since a moment, and checks that no secret is among
// them.
func written(t *testing.T, since time.Time) map[string]int {
	t.Helper()
	bytes := map[string]int{}
	for name := range strings.FieldsSeq(docker(t, "compose", "ps", "-a", "--format", "{{.Name}}")) {
		text := docker(t, "logs", "--since", since.Format(time.RFC3339Nano), name)
		for _, secret := range []string{adminToken, redisPassword, decideToken} {
			if strings.Contains(text, secret) {
				t.Errorf("%s logged %q", name, secret)
			}
		}
		bytes[name] = len(text)
	}
	return bytes
}

var ours = regexp.MustCompile("aggregator|collector|limiter-sidecar|load")

// A day of logs is a day like the minute before the breaks, and each break once.
// None of our programs writes more than 10 MB in it.
func judgeLogs(t *testing.T, quiet map[string]int, lasted time.Duration, broken map[string]int) {
	for name, n := range quiet {
		day := (float64(n)/lasted.Seconds()*86400 + float64(broken[name])) / 1e6
		t.Logf("%s: %.1f MB a day", name, day)
		if ours.MatchString(name) && day > 10 {
			t.Errorf("%s writes %.1f MB a day, want at most 10; the last of it:\n%s", name, day,
				docker(t, "logs", "--tail", "60", name))
		}
	}
}
