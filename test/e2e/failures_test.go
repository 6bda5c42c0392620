package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// runbookFailures has for each row of "What happens when something fails" in docs/runbook.md the tests that make it
// happen to running programs. With any failure, [program.Launch] fails a test whose programs write more than ten lines
// of a message in a minute.
var runbookFailures = map[string]string{
	"`local`, `open`, `closed`":                         "TestFailures_LogWithinBounds/redis_answers_wrongly",
	"the master behind Sentinels is gone or replaced":   "TestFailures_LogWithinBounds/sentinels",
	"too few Sentinels answer":                          "TestFailures_LogWithinBounds/few_sentinels",
	"a firewall drops the connections to Redis":         "TestFailures_LogWithinBounds/redis_stalls",
	"Redis lost its hot sets":                           "TestHotSet_ReturnsAfterRedisLostIt",
	"a limiter starts while Redis is away":              "TestOverrides_HoldWhenLimiterStartsWithoutRedis",
	"Redis lost overrides, or returned with older ones": "TestOverrides_AfterRedisLostItsData",
	"the rule store is away or lost its rules":          "TestRules_FromRedis TestRules_FromEtcd",
	"rules in the store that cannot run":                "TestRules_FromRedis",
	"messages from Redis are lost":                      "TestFailures_LogWithinBounds/redis_loses_messages",
	"the aggregator is gone":                            "TestStandby_TakesOverPublishing",
	"an aggregator was frozen and wakes up":             "TestFrozenAggregator_LeavesLimitsInForce",
	"an aggregator restarts":                            "TestAggregator_RestartLeavesKeysHot",
	"an aggregator joins, leaves or dies (Kafka)":       "TestAggregators_ShareATopic",
	"Graphite is gone, slow or wrong":                   "TestFailures_LogWithinBounds/graphite",
	"Kafka or StatsD is gone, frozen, slow, or its DNS hangs": "TestFailures_LogWithinBounds/kafka " +
		"TestFailures_LogWithinBounds/statsd TestDeadKafka_LeavesLimitsInForce",
	"more keys than counters":       "TestFailures_LogWithinBounds/more_keys_than_counters",
	"a hostile query":               "TestServe_SurvivesHostileInput",
	"a bad configuration at reload": "TestReload_AppliesOnlyValidRules",
}

// The other failures that programs meet are in the table of tests only.
var furtherFailures = map[string]func(*testing.T){
	"upstream": upstreamFails, "scrapes": scrapesTimeOut, "garbage": garbageArrives,
}

var deafening = map[string]func(*testing.T){
	"redis_answers_wrongly": redisAnswersWrongly, "redis_stalls": redisStalls, "sentinels": masterIsReplaced,
	"few_sentinels":        fewSentinels,
	"redis_loses_messages": messagesAreLost, "graphite": graphiteFails, "kafka": kafkaComesAndGoes,
	"statsd": statsdIsAway, "more_keys_than_counters": tooManyKeys,
}

// TestRunbookFailures_HaveTests compares the list with the runbook and with the tests there are.
func TestRunbookFailures_HaveTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### Everything else\n")
	section, _, _ = strings.Cut(section, "\n## ")
	links := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	rows := 1 // the policies of "Redis fails"
	for _, line := range strings.Split(section, "\n| ")[2:] {
		fault, _, _ := strings.Cut(links.ReplaceAllString(line, "$1"), " |")
		if runbookFailures[fault] == "" {
			t.Errorf("docs/runbook.md: no test of the failure %q is in the list", fault)
		}
		rows++
	}
	if rows != len(runbookFailures) {
		t.Errorf("%d failures in docs/runbook.md, %d in the list", rows, len(runbookFailures))
	}
	var code strings.Builder
	files, _ := filepath.Glob("*_test.go")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	for fault, tests := range runbookFailures {
		for name := range strings.FieldsSeq(tests) {
			name, sub, _ := strings.Cut(name, "/")
			if !strings.Contains(code.String(), "func "+name+"(") || sub != "" && deafening[sub] == nil {
				t.Errorf("%s: there is no test %s/%s", fault, name, sub)
			}
		}
	}
}

func TestFailures_LogWithinBounds(t *testing.T) {
	t.Parallel()
	for _, all := range []map[string]func(*testing.T){deafening, furtherFailures} {
		for name, fail := range all {
			t.Run(name, func(t *testing.T) { t.Parallel(); fail(t) })
		}
	}
}

// fails keeps a failure for a while.
func fails(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// limited starts an aggregator and a limiter on one Redis, with requests for a hot topic.
func limited(t *testing.T, redis ...string) (aggregator, limiter *program.Process) {
	t.Helper()
	config := write(t, "hotparam.yaml", noInputRules)
	statsd, decide, admins := freeport.Addr(t), freeport.Addr(t), []string{freeport.Addr(t), freeport.Addr(t)}
	aggregator = launch(t, "aggregator", append(redis, "--config", config, "--statsd.listen", statsd,
		"--admin.listen", admins[0])...)
	limiter = launch(t, "limiter-sidecar", append(redis, "--config", config, "--decide.listen", decide, "--statsd.addr",
		statsd, "--admin.listen", admins[1])...)
	ready(t, admins[0])
	ready(t, admins[1])
	load := ask(t, decide, 42)
	program.Await(t, time.Minute, "the first refusal", func() bool { return load.denied.Load() > 0 })
	return aggregator, limiter
}

// mentions waits until a program has logged the failure, because a failure that is not noticed tests no log lines.
func mentions(t *testing.T, p *program.Process, what string) {
	t.Helper()
	program.Await(t, time.Minute, p.Name()+" to log "+what, func() bool { return strings.Contains(p.Said(), what) })
}

func redisAnswersWrongly(t *testing.T) {
	proxy := redistest.StartFaultProxy(t, redistest.Start(t).Addr())
	_, limiter := limited(t, "--redis.addr", proxy.Addr())
	replies := []redistest.Fault{redistest.CutAfter(3), redistest.Silent, redistest.SlowReply(20 * time.Millisecond)}
	for _, r := range []string{"NOSCRIPT No matching script.", "READONLY You can't write against a read only replica.",
		"MOVED 1 192.0.2.1:6379", "BUSY Redis is busy running a script.", "OOM command not allowed.",
		"LOADING Redis is loading the dataset in memory", "CLUSTERDOWN Hash slot not served",
		"MASTERDOWN Link with MASTER is down"} {
		replies = append(replies, redistest.FixedReply("-"+r+"\r\n"))
	}
	for _, reply := range replies {
		proxy.Set(reply)
		fails(t, 2500*time.Millisecond)
		proxy.Set(nil)
		fails(t, 500*time.Millisecond) // breakers close, followers read
	}
	mentions(t, limiter, "shared store fails")
}

func redisStalls(t *testing.T) {
	redis := redistest.Start(t)
	proxy := redistest.StartFaultProxy(t, redis.Addr())
	aggregator, limiter := limited(t, "--redis.addr", proxy.Addr())
	for range 8 {
		redis.Freeze()
		fails(t, 2*time.Second)
		redis.Thaw()
		fails(t, time.Second)
		proxy.Forget()
	}
	mentions(t, limiter, "shared store fails")
	mentions(t, aggregator, "level=WARN")
}

func masterIsReplaced(t *testing.T) {
	s := redistest.StartSentinels(t)
	_, limiter := limited(t, "--redis.addr", strings.Join(s.Addrs(), ","), "--redis.sentinel_master",
		redistest.MasterName)
	s.Master.Stop()
	fails(t, 10*time.Second)
	mentions(t, limiter, s.Replica.Addr())
	s.Replica.Stop() // now there is none
	fails(t, 15*time.Second)
}

// fewSentinels leaves one of three, and closes the connections to the master, so that the programs query the sentinel.
func fewSentinels(t *testing.T) {
	s := redistest.StartSentinels(t)
	_, limiter := limited(t, "--redis.addr", strings.Join(s.Addrs(), ","), "--redis.sentinel_master",
		redistest.MasterName)
	s.Nodes[0].Stop()
	s.Nodes[1].Stop()
	for _, kind := range []string{"normal", "pubsub"} {
		if err := s.Master.Client().Do(context.Background(), "CLIENT", "KILL", "TYPE", kind).Err(); err != nil {
			t.Fatal(err)
		}
	}
	mentions(t, limiter, "too few Sentinels")
	fails(t, 5*time.Second)
}

func messagesAreLost(t *testing.T) {
	redis := redistest.Start(t)
	limited(t, "--redis.addr", redis.Addr())
	for range 100 {
		if err := redis.Client().Do(context.Background(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		fails(t, 100*time.Millisecond)
	}
}

func graphiteFails(t *testing.T) {
	var answer atomic.Int64
	graphite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := answer.Add(1); n % 4 {
		case 0:
			http.Error(w, fmt.Sprint("request ", n, " of ", r.RemoteAddr), http.StatusInternalServerError)
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			fmt.Fprintf(w, "{wrong %d", n)
		case 3:
			fails(t, 1500*time.Millisecond)
		}
	}))
	t.Cleanup(graphite.Close)
	admin := freeport.Addr(t)
	p := launch(t, "aggregator", "--config", write(t, "hotparam.yaml", noInputRules), "--redis.addr",
		redistest.Start(t).Addr(), "--graphite.url", graphite.URL, "--graphite.timeout", "1s", "--admin.listen", admin)
	ready(t, admin)
	mentions(t, p, "Graphite does not give counts")
	fails(t, 20*time.Second)
}

// kafkaComesAndGoes connects a collector and an aggregator to a broker that first refuses connections, then accepts
// them and does not answer, then works, and then stops.
func kafkaComesAndGoes(t *testing.T) {
	addr := freeport.Addr(t)
	_, port, _ := net.SplitHostPort(addr)
	config := write(t, "hotparam.yaml", noInputRules)
	in, admin, collectorAdmin := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	aggregator := launch(t, "aggregator", "--config", config, "--redis.addr", redistest.Start(t).Addr(),
		"--kafka.brokers", addr, "--admin.listen", admin)
	launch(t, "collector", "--config", config, "--statsd.listen", in, "--kafka.brokers",
		addr+",kafka.invalid:9092", "--admin.listen", collectorAdmin)
	ready(t, admin)
	ready(t, collectorAdmin)
	startLoad(t, in).ids[0].Store(true)
	fails(t, 5*time.Second)
	mute, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fails(t, 5*time.Second)
	_ = mute.Close()
	for range 3 {
		var n int
		_, _ = fmt.Sscan(port, &n)
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(n))
		if err != nil {
			t.Fatal(err)
		}
		fails(t, 6*time.Second)
		cluster.Close()
		fails(t, 3*time.Second)
	}
	mentions(t, aggregator, "level=WARN")
}

// statsdIsAway starts a collector with a server that refuses, one whose name is unknown, and a receiver that is present
// half of the time.
func statsdIsAway(t *testing.T) {
	in, admin, flapping := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	p := launch(t, "collector", "--config", write(t, "hotparam.yaml", noInputRules), "--statsd.listen", in,
		"--statsd.addr", strings.Join([]string{freeport.Addr(t), flapping, "statsd.invalid:8125"}, ","),
		"--admin.listen", admin)
	ready(t, admin)
	load := startLoad(t, in)
	for i := range load.ids {
		load.ids[i].Store(true)
	}
	for range 10 {
		there, err := net.ListenPacket("udp", flapping)
		if err != nil {
			t.Fatal(err)
		}
		fails(t, time.Second)
		_ = there.Close()
		fails(t, time.Second)
	}
	mentions(t, p, "counts do not arrive")
}

func tooManyKeys(t *testing.T) {
	in, admin := freeport.Addr(t), freeport.Addr(t)
	rules := strings.Replace(noInputRules, "rate: 50", "rate: 30", 1)
	p := launch(t, "aggregator", "--config", write(t, "hotparam.yaml", rules), "--redis.addr",
		redistest.Start(t).Addr(), "--statsd.listen", in, "--admin.listen", admin, "--detect.counters", "1024")
	ready(t, admin)
	conn, err := net.Dial("udp", in)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	key := 0
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		for range 400 { // floods that come and go every two seconds
			key++
			if key/40000%2 == 0 {
				_, _ = fmt.Fprintf(conn, "hotparam.topic.hot_param.id=%d:%d|c", key, 1+key%50)
			}
		}
		fails(t, 20*time.Millisecond)
	}
	mentions(t, p, "more keys than there are counters")
}

// upstreamFails sends requests to a proxy whose upstream refuses, closes, and answers with half a response, each on a
// connection with a port of its own.
func upstreamFails(t *testing.T) {
	var n atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusOK)
		}
		panic(http.ErrAbortHandler)
	}))
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	p := launch(t, "hotparam", "serve", "--upstream", upstream.URL, "--listen", addr, "--admin.listen", admin,
		"--config", write(t, "hotparam.yaml", noInputRules), "--state.dir", t.TempDir())
	ready(t, admin)
	for i := range 1500 {
		_, _ = get(t, "http://"+addr+fmt.Sprint("/p", i))
		if i == 1000 {
			upstream.Close()
		}
	}
	mentions(t, p, "upstream failed")
}

// scrapesTimeOut reads metrics over connections that are closed before the answer is read.
func scrapesTimeOut(t *testing.T) {
	admin := freeport.Addr(t)
	launch(t, "hotparam", "serve", "--upstream", "http://127.0.0.1:1", "--listen", freeport.Addr(t), "--admin.listen",
		admin, "--config", write(t, "hotparam.yaml", noInputRules), "--state.dir", t.TempDir())
	ready(t, admin)
	for range 300 {
		conn, err := net.Dial("tcp", admin)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: "+admin+"\r\n\r\n")
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset
		fails(t, 2*time.Millisecond)
		_ = conn.Close()
	}
}

// garbageArrives sends lines, datagrams and tokens that are wrong in as many ways.
func garbageArrives(t *testing.T) {
	in, admin, decide := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	p := launch(t, "hotparam", "serve", "--upstream", "http://127.0.0.1:1", "--listen", freeport.Addr(t),
		"--admin.listen", admin, "--decide.listen", decide, "--decide.token", strings.Repeat("right", 8),
		"--config", write(t, "hotparam.yaml", noInputRules), "--state.dir", t.TempDir())
	collector := launch(t, "collector", "--config", write(t, "hotparam.yaml", noInputRules), "--statsd.listen", in,
		"--statsd.addr", freeport.Addr(t), "--admin.listen", freeport.Addr(t))
	ready(t, admin)
	mentions(t, collector, "level=INFO")
	conn, err := net.Dial("udp", in)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 500 {
		_, _ = fmt.Fprintf(conn, "%s%d:%c|c\nhotparam.x:1|%d", strings.Repeat("x", i), i, i, i)
		_, _ = do(t, http.MethodPost, "http://"+decide+"/v1/decide", fmt.Sprint("{", i),
			http.Header{"Authorization": {fmt.Sprint("Bearer ", slices.Repeat([]int{i}, 20))}})
	}
	mentions(t, p, "level=WARN")
}
