package integration_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

const chainRules = `
namespace: chain
rules:
  - name: topic
    match: {path: "/topic"}
    params: [id]
    hot:   {rate: 100, window: 2s, cooldown: 4s}
    limit: {algorithm: token_bucket, rate: 1, burst: 1}
`

const (
	chainTrials    = 7
	chainRate      = 500 // requests a second for the viral topic
	chainThreshold = 200 // rate x window of the rule
)

// A viral topic is found and limited by the whole chain of the original design,
//
//	limiter-sidecar ──> statsd ──> carbon ──> graphite-web ──> aggregator ──> Redis ──> limiter-sidecar
//
// and, for comparison in the same run, by StatsD directly and by Kafka.
func TestViralTopicThroughTheChain(t *testing.T) {
	c := startChain(t, chainRead(t, deployed+"statsd.config.js"))
	bin := program.Ours(t)
	redis := redistest.Start(t)
	direct := loopback(strconv.Itoa(freeport.Port(t)))
	broker := chainBroker(t)
	ways := []*way{
		{name: "StatsD", in: []string{"--statsd.listen", direct},
			out: []string{"--sidecar.count", "statsd", "--statsd.addr", direct}},
		{name: "Kafka (kfake)", in: []string{"--kafka.brokers", broker},
			out: []string{"--sidecar.count", "kafka", "--kafka.brokers", broker}},
		{name: "StatsD, Graphite, cron", in: []string{"--graphite.url", c.web},
			out: []string{"--sidecar.count", "statsd", "--statsd.addr", c.statsd}},
	}
	for i, w := range ways {
		w.start(t, bin, redis.Addr(), i)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for trial := range chainTrials {
		for _, w := range ways {
			<-time.After(time.Duration(r.IntN(1000)) * time.Millisecond) // another phase of every clock
			w.took = append(w.took, w.goViral(t, trial))
		}
	}
	t.Logf("from the request over the threshold to the first refusal, %d trials:\n%s", chainTrials, table(ways))
	if took := median(ways[2].took); took > 10*time.Second {
		t.Errorf("the chain took %v in the median", took)
	}
}

// table compares the ways, the first being the measure.
func table(ways []*way) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| way | median (lowest-highest) | times the first |\n|---|---|---|\n")
	for _, w := range ways {
		ratios := make([]float64, len(w.took))
		for i := range w.took {
			ratios[i] = float64(w.took[i]) / float64(ways[0].took[i])
		}
		fmt.Fprintf(&b, "| %s | %d ms (%d-%d) | %.1f |\n", w.name, median(w.took).Milliseconds(),
			slices.Min(w.took).Milliseconds(), slices.Max(w.took).Milliseconds(), median(ratios))
	}
	return b.String()
}

func median[T cmp.Ordered](list []T) T { return slices.Sorted(slices.Values(list))[len(list)/2] }

// way is one way from the count to the refusal, with a namespace of its own in
// one Redis.
type way struct {
	name    string
	in, out []string // settings of aggregator and sidecar
	decide  string
	took    []time.Duration
}

func (w *way) start(t *testing.T, bin, redis string, i int) {
	t.Helper()
	dir := t.TempDir()
	chainWrite(t, dir, "rules.yaml", strings.Replace(chainRules, "namespace: chain",
		fmt.Sprintf("namespace: chain%d", i), 1))
	config, port := filepath.Join(dir, "rules.yaml"), strconv.Itoa(freeport.Port(t))
	w.decide = "http://" + loopback(port) + "/v1/decide"
	common := []string{"--config", config, "--redis.addr", redis, "--admin.listen", ""}
	chainRun(t, dir, filepath.Join(bin, "aggregator"), append(common, w.in...)...)
	chainRun(t, dir, filepath.Join(bin, "limiter-sidecar"),
		append(append(common, w.out...), "--decide.listen", loopback(port), "--gate.budget", "1s")...)
	program.Await(t, time.Minute, "the limiter-sidecar", accepts(port))
}

// goViral asks for a topic until it is denied, beside quiet topics that must not be denied. It returns the time since
// the request that crossed the threshold.
func (w *way) goViral(t *testing.T, trial int) time.Duration {
	t.Helper()
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	var over time.Time
	asked := 0
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		const n = int(chainRate * every / time.Second)
		viral, quiet := w.ask(t, fmt.Sprintf("/topic?id=%d", 1000+trial), n),
			w.ask(t, fmt.Sprintf("/topic?id=%d", asked%50), 1)
		asked += n
		if over.IsZero() && asked >= chainThreshold {
			over = time.Now()
		}
		switch {
		case quiet > 0:
			t.Fatalf("%s: a quiet topic was refused", w.name)
		case viral > 0 && over.IsZero():
			t.Fatalf("%s: the topic was refused after %d requests, the threshold is %d", w.name, asked, chainThreshold)
		case viral > 0:
			return time.Since(over)
		case time.Now().After(deadline):
			t.Fatalf("%s: no refusal after %d requests", w.name, asked)
		}
	}
}

// ask asks n times at once and returns the number of denials.
func (w *way) ask(t *testing.T, uri string, n int) (refused int) {
	t.Helper()
	one := fmt.Sprintf(`{"method":"GET","uri":%q,"ip":"192.0.2.1"}`, uri)
	body := "[" + strings.Repeat(one+",", n-1) + one + "]"
	res, err := http.Post(w.decide, "application/json", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answers []struct {
		Allowed bool `json:"allowed"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answers); err != nil || len(answers) != n {
		t.Fatalf("%s: %d answers to %d: %v", w.name, len(answers), n, err)
	}
	for _, a := range answers {
		if !a.Allowed {
			refused++
		}
	}
	return refused
}

// chainBroker starts an embedded broker, which adds the minimum time that Kafka can add.
func chainBroker(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}
