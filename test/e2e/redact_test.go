package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/test/internal/program"
)

// unseen is the value that must appear nowhere. No transport changes its letters.
const unseen = "geheimeswort"

const redactRules = `
namespace: e2e
redact: {token: hash}
rules:
  - name: login
    match: {path: "/login"}
    params: [token]
    hot:   {rate: 20, window: 1s}
    limit: {algorithm: token_bucket, rate: 10, burst: 10}
ip: {trusted_proxies: ["127.0.0.1/32"]}
log: {level: debug}
privacy: {secret: s3cret-of-the-test}
`

// record stores all bytes that pass.
type record struct {
	mu    sync.Mutex // guards bytes
	bytes bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes.String()
}

// recordTCP listens in front of a server and records the bytes of both directions.
func recordTCP(t *testing.T, behind string) (addr string, r *record) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	r = &record{}
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", behind)
			if err != nil {
				client.Close()
				continue
			}
			go func() { _, _ = io.Copy(io.MultiWriter(server, r), client); server.Close() }()
			go func() { _, _ = io.Copy(io.MultiWriter(client, r), server); client.Close() }()
		}
	}()
	return ln.Addr().String(), r
}

func recordUDP(t *testing.T) (addr string, r *record) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r = &record{}
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, _, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = r.Write(buf[:n])
		}
	}()
	return conn.LocalAddr().String(), r
}

// recordKafka records the keys of the topic.
func recordKafka(t *testing.T, broker string) *record {
	t.Helper()
	r := &record{}
	consumer, err := kafka.NewConsumer(kafka.ConsumerConfig{
		Config: kafka.Config{Brokers: []string{broker}, Topic: "hotparam-counts", Group: "record", Namespace: "e2e",
			Log: quiet},
		Backlog: time.Hour,
		Handle: func(counts []hottype.Count) {
			for _, c := range counts {
				fmt.Fprintln(r, c.Key)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

// A redacted value is in no store, on no wire, in no log, metric, answer or page, and counts, limits and overrides work
// for it as for any other value.
func TestRedactedValues_AppearNowhere(t *testing.T) {
	t.Parallel()
	set, err := rules.ParseWith("rules.yaml", []byte(redactRules), rules.Options{
		Secret: []byte("s3cret-of-the-test"), Sections: rules.ProgramSections})
	if err != nil {
		t.Fatal(err)
	}
	key, err := set.RedactKey("login?token=" + unseen)
	if err != nil || strings.Contains(key, unseen) {
		t.Fatalf("%s, %v", key, err)
	}
	hash := key[strings.Index(key, "hash-"):]
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "hotparam-counts"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	redis, redisWire := recordTCP(t, redistest.Start(t).Addr())
	statsd, statsdWire := recordUDP(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	t.Cleanup(upstream.Close)
	hook := &record{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(hook, r.Body)
	}))
	t.Cleanup(receiver.Close)
	webhooks := "notifications:\n  webhooks:\n"
	for _, format := range []string{"json", "slack", "alertmanager"} {
		webhooks += fmt.Sprintf("    - {name: %s, format: %s, url: '%s'}\n", format, format, receiver.URL)
	}
	config, state := write(t, "hotparam.yaml", redactRules+webhooks), t.TempDir()
	accesslog := write(t, "access.log", "")
	admins := []string{freeport.Addr(t), freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)}
	mirror, proxy, alone := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	programs := []*program.Process{
		launch(t, "collector", "--config", config, "--admin.listen", admins[0], "--mirror.listen", mirror,
			"--accesslog.file", accesslog,
			"--collector.out", "both", "--kafka.brokers", broker, "--statsd.addr", statsd),
		launch(t, "aggregator", "--config", config, "--admin.listen", admins[1], "--admin.metrics_key_labels",
			"--kafka.brokers", broker, "--redis.addr", redis,
			"--state.dir", filepath.Join(state, "aggregator")),
		launch(t, "limiter-sidecar", "--config", config, "--admin.listen", admins[2], "--admin.metrics_key_labels",
			"--redis.addr", redis, "--decide.listen", "",
			"--proxy.listen", proxy, "--proxy.upstream", upstream.URL, "--sidecar.count", "none", "--gate.budget",
			budget),
		launch(t, "hotparam", "serve", "--config", config, "--admin.listen", admins[3], "--admin.metrics_key_labels",
			"--listen", alone, "--upstream", upstream.URL, "--learn", "1h",
			"--state.dir", filepath.Join(state, "serve")),
	}
	for _, admin := range admins {
		ready(t, admin)
	}
	kafkaWire := recordKafka(t, broker)

	appendTo(t, accesslog, "this is no line of a log: token="+unseen+"\n")
	appendTo(t, accesslog, `192.0.2.1 - - [01/Jan/2026:12:00:00 +0000] "GET /status HTTP/1.1" 200 1`+"\n"+
		`192.0.2.1 - - [token=`+unseen+`] "GET /status HTTP/1.1" 200 1`+"\n")
	for _, at := range []string{proxy, alone} {
		program.Await(t, time.Minute, "the value to be limited at "+at, func() bool {
			denied := false
			for range 30 {
				do(t, http.MethodGet, "http://"+mirror+"/login?token="+unseen, "", nil)
				status, _ := get(t, "http://"+at+"/login?a=b&token="+unseen)
				denied = denied || status == http.StatusTooManyRequests
			}
			return denied
		})
	}
	seen := ""
	for _, admin := range []string{admins[1], admins[3]} {
		status, body := do(t, http.MethodPut, "http://"+admin+"/v1/overrides?confirm=true",
			`{"key": "login?token=`+unseen+`", "action": "block"}`, nil)
		if status != http.StatusCreated || !strings.Contains(body, hash) {
			t.Errorf("override: %d %s", status, body)
		}
		seen += body
		status, body = do(t, http.MethodPut, "http://"+admin+"/v1/overrides?confirm=true",
			`{"key": "login?token=`+unseen[:5]+`*", "action": "block"}`, nil)
		if status != http.StatusBadRequest || !strings.Contains(body, "tells part") {
			t.Errorf("a pattern for part of the value: %d %s", status, body)
		}
	}
	program.Await(t, time.Minute, "the override to hold", func() bool {
		status, body := get(t, "http://"+proxy+"/login?token="+unseen)
		return status == http.StatusForbidden || strings.Contains(body, "block")
	})
	for _, admin := range admins {
		for _, path := range []string{"/", "/metrics", "/v1/hot", "/v1/keys/login%3Ftoken=" + unseen, "/v1/overrides",
			"/v1/audit",
			"/v1/history?limit=100&key=login?token=" + unseen, "/v1/history?format=csv", "/readyz?verbose",
			"/no/such/page"} {
			_, body := get(t, "http://"+admin+path)
			seen += body
		}
		seen += everything(t, admin)
		seen += beginning(t, "http://"+admin+"/v1/events")
	}
	for range 500 { // enough to learn from
		get(t, "http://"+alone+"/login?token="+unseen)
	}
	tools := ""
	for _, args := range [][]string{{"hot", "ls", "--admin", "http://" + admins[1]},
		{"override", "ls", "--admin", "http://" + admins[1]}, {"audit", "--admin", "http://" + admins[1]}} {
		for _, form := range []string{"text", "json"} {
			p := launch(t, "hotparam", append(args, "-o", form)...)
			if code := p.Wait(20 * time.Second); code != 0 {
				t.Errorf("hotparam %s: exit code %d, %s", args, code, p.Said())
			}
			tools += p.Said()
		}
	}
	program.Await(t, time.Minute, "the webhooks to be told", func() bool {
		told := hook.String()
		return strings.Count(told, "alertname") > 1 && strings.Contains(told, "mrkdwn") &&
			strings.Contains(told, "sent_at")
	})
	for _, p := range programs {
		p.Stop()
		seen += p.Said()
	}
	tools += readLogs(t, config)
	files := ""
	if err := filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files += path + "\n" + string(data)
		return err
	}); err != nil {
		t.Error(err)
	}
	for where, text := range map[string]string{"redis": redisWire.String(), "statsd": statsdWire.String(),
		"kafka": kafkaWire.String(),
		"state": files, "answers, pages, metrics and logs": seen, "webhooks": hook.String(),
		"command line": tools} {
		if i := strings.Index(strings.ToLower(text), unseen); i >= 0 {
			t.Errorf("%s: …%q…", where, text[max(0, i-200):min(len(text), i+100)])
		}
		if !strings.Contains(text, hash[len("hash-"):]) { // StatsD escapes the hyphen
			t.Errorf("%s: the value's hash %s is not there either, so nothing was looked at (%d bytes)", where, hash,
				len(text))
		}
	}
}

// everything returns the answers of an admin listener at all paths of its API that need no argument, which its page
// loads.
func everything(t *testing.T, admin string) (all string) {
	t.Helper()
	_, text := get(t, "http://"+admin+"/openapi.json")
	var api struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(text), &api); err != nil || len(api.Paths) < 10 {
		t.Fatalf("%v: %.200s", err, text)
	}
	for path, does := range api.Paths {
		if does["get"] == nil || strings.Contains(path, "{") || strings.HasSuffix(path, "/events") {
			continue
		}
		_, body := get(t, "http://"+admin+path)
		all += body
	}
	return all
}

// readLogs returns the output of replay and learn about a log that contains the value, and the files that they write.
func readLogs(t *testing.T, config string) string {
	t.Helper()
	lines, dir := "", t.TempDir()
	for n := range 3000 {
		lines += fmt.Sprintf("%d\t192.0.%d.%d\tGET\t/login?token=%s\n", 1_700_000_000+n/100, n%3, n%250, unseen)
	}
	log := write(t, "events.tsv", lines)
	learned := filepath.Join(dir, "learned.yaml")
	all := ""
	for _, args := range [][]string{{"replay", "--config", config, log},
		{"replay", "--config", config, "-o", "json", log}, {"learn", "--out", learned, log}} {
		p := launch(t, "hotparam", args...)
		if code := p.Wait(60 * time.Second); code != 0 {
			t.Errorf("hotparam %s: exit code %d, %s", args, code, p.Said())
		}
		all += p.Said()
	}
	text, err := os.ReadFile(learned)
	if err != nil {
		t.Error(err)
	}
	return all + string(text)
}

// beginning is the first event of a stream.
func beginning(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	buf := make([]byte, 1<<16)
	n, _ := io.ReadAtLeast(res.Body, buf, 200) // the bytes until then are enough
	return string(buf[:n])
}
