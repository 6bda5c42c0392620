package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// noInputRules hold a hot topic to 20 a second.
var noInputRules = strings.Replace(pipelineRules, "rate: 40, burst: 40", "rate: 20, burst: 20", 1)

// asking asks a sidecar about one topic, about 150 times a second.
type asking struct {
	allowed, denied atomic.Int64
	end             func()
}

func ask(t *testing.T, decide string, id int) *asking {
	t.Helper()
	a, stop := new(asking), make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if allowed(t, decide, id) {
					a.allowed.Add(1)
				} else {
					a.denied.Add(1)
				}
			}
		})
	}
	a.end = sync.OnceFunc(func() { close(stop); wg.Wait() })
	t.Cleanup(a.end)
	return a
}

func allowed(t *testing.T, decide string, id int) bool {
	_, body := do(t, http.MethodPost, "http://"+decide+"/v1/decide",
		fmt.Sprintf(`{"method":"GET","uri":"/topic?id=%d","ip":"192.0.2.7"}`, id),
		http.Header{"Content-Type": {"application/json"}})
	return strings.Contains(body, `"allowed":true`)
}

// While an aggregator is frozen, the hot key stays limited for much longer than its publisher vouched for it, also in a
// limiter that starts meanwhile, and every program reports it. After the aggregator wakes everything is as before.
func TestFrozenAggregator_LeavesLimitsInForce(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", noInputRules)
	statsd, admin := freeport.Addr(t), freeport.Addr(t)
	aggregator := launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--aggregator.id", "alone",
		"--statsd.listen", statsd, "--admin.listen", admin)
	ready(t, admin)
	limiter := func() (p *program.Process, decide, admin string) {
		decide, admin = freeport.Addr(t), freeport.Addr(t)
		p = launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--decide.listen", decide,
			"--statsd.addr", statsd,
			"--admin.listen", admin, "--gate.budget", budget)
		ready(t, admin)
		return p, decide, admin
	}
	sidecar, decide, sidecarAdmin := limiter()
	load := ask(t, decide, 42)
	program.Await(t, time.Minute, "the first refusal", func() bool { return load.denied.Load() > 0 })
	held := func(what string, d time.Duration) {
		t.Helper()
		before, from := load.allowed.Load(), time.Now()
		<-time.After(d)
		passed, most := load.allowed.Load()-before, int64(20+20*time.Since(from).Seconds()+1)
		t.Logf("%s: %d passed in %v, at most %d may", what, passed, d, most)
		if passed > most {
			t.Errorf("%s: the topic is held to 20/s and %d passed in %v", what, passed, d)
		}
	}
	held("before", time.Second)

	aggregator.Signal(syscall.SIGSTOP)
	held("frozen", 16*time.Second) // three times detect.hot_ttl and more
	if said := sidecar.Said(); strings.Count(said, "aggregator not seen") != 1 ||
		!strings.Contains(said, "publisher=alone") {
		t.Error("the limiter does not say once that the aggregator is silent")
	}
	if s, k := metric(t, sidecarAdmin, "hotparam_hotset_stale_publishers"),
		metric(t, sidecarAdmin, "hotparam_hotset_keys_kept"); s != "1" || k != "1" {
		t.Errorf("%s silent publishers, %s keys kept", s, k)
	}
	if status, body := get(t, "http://"+sidecarAdmin+"/readyz?verbose"); status != http.StatusOK ||
		!strings.Contains(body, "1 of 1 aggregators stale: 1 hot keys kept") {
		t.Errorf("/readyz?verbose: %d %s", status, body)
	}
	_, late, _ := limiter()
	program.Await(t, time.Minute, "a limiter that starts now to know the key",
		func() bool { return !allowed(t, late, 42) })

	aggregator.Signal(syscall.SIGCONT)
	program.Await(t, time.Minute, "the limiter to see again", func() bool {
		return strings.Contains(sidecar.Said(), "receives counts again") &&
			metric(t, sidecarAdmin, "hotparam_hotset_stale_publishers") == "0"
	})
	held("awake", 5*time.Second)
	load.end()
	cold := time.Now()
	program.Await(t, time.Minute, "the topic to be cold",
		func() bool { _, body := get(t, "http://"+admin+"/v1/hot"); return !strings.Contains(body, "id=42") })
	t.Logf("cold after %v", time.Since(cold).Round(time.Millisecond))
	if took := time.Since(cold); took > 2*time.Second+2*time.Second+2*time.Second+slack {
		t.Errorf("cold only after %v: window, cool, and a moment", took)
	}

	aggregator.Signal(syscall.SIGTERM) // a stopped aggregator raises no alarm
	program.Await(t, time.Minute, "the aggregator to say that it stops",
		func() bool { return strings.Contains(sidecar.Said(), "has stopped") })
	<-time.After(6 * time.Second) // a silent one is found after 5 s
	if silent := metric(t, sidecarAdmin, "hotparam_hotset_stale_publishers"); silent != "0" ||
		metric(t, sidecarAdmin, "hotparam_hotset_publishers") != "0" {
		t.Errorf("%s silent publishers after a clean stop", silent)
	}
}

// An aggregator whose senders are frozen or stopped reports it and cools nothing, and continues when they are back. A
// sender that has nothing to count is not missing.
func TestSilentSenders_LeaveLimitsInForce(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", noInputRules)
	statsd, in := freeport.Addr(t), freeport.Addr(t)
	admin, collectorAdmin := freeport.Addr(t), freeport.Addr(t)
	aggregator := launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--aggregator.id", "alone",
		"--statsd.listen", statsd, "--admin.listen", admin)
	ready(t, admin)
	program.Await(t, time.Minute, "an aggregator that waits to be ready", func() bool {
		status, body := get(t, "http://"+admin+"/readyz?verbose")
		return status == http.StatusOK && strings.Contains(body, "waiting for the first sender")
	})
	collector := launch(t, "collector", "--config", config, "--statsd.listen", in, "--statsd.addr", statsd,
		"--admin.listen", collectorAdmin)
	ready(t, collectorAdmin)
	w := watchKeys(t, redis, topic(0), topic(1))
	l := startLoad(t, in)
	l.ids[0].Store(true)
	program.Await(t, time.Minute, "topic 0 to be hot", func() bool { return w.hot(topic(0)) })
	program.Await(t, time.Minute, "the aggregator to expect signs of life", func() bool {
		return metric(t, admin, "hotparam_statsd_in_alive_total") > "0"
	})
	collector.Signal(syscall.SIGSTOP)
	program.Await(t, time.Minute, "the aggregator to have no input",
		func() bool { return metric(t, admin, "hotparam_aggregate_no_input") == "1" })
	if status, body := get(t, "http://"+admin+"/readyz?verbose"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "no sender heard") {
		t.Errorf("/readyz?verbose: %d %s", status, body)
	}
	for range 120 { // three times the time of cooling
		<-time.After(100 * time.Millisecond)
		if !w.hot(topic(0)) {
			t.Fatal("a key has cooled in the dark")
		}
	}
	if st := w.mirror.Stats(time.Now()); st.NoInputPublishers != 1 || st.Publishers != 1 || st.StalePublishers != 0 {
		t.Errorf("%+v", st)
	}
	l.ids[0].Store(false)
	l.ids[1].Store(true)
	collector.Signal(syscall.SIGCONT)
	program.Await(t, time.Minute, "the aggregator to see",
		func() bool { return metric(t, admin, "hotparam_aggregate_no_input") == "0" })
	program.Await(t, time.Minute, "topic 1 to be hot", func() bool { return w.hot(topic(1)) })
	program.Await(t, time.Minute, "topic 0 to be cold", func() bool { return !w.hot(topic(0)) })
	l.ids[1].Store(false) // no requests, and the collector lives
	program.Await(t, time.Minute, "topic 1 to be cold", func() bool { return !w.hot(topic(1)) })
	if said := aggregator.Said(); strings.Count(said, "aggregate: no counts received") != 1 ||
		strings.Count(said, "input again") != 1 {
		t.Error("the aggregator does not say once that it has no input, and once that it has")
	}
}

// When Kafka dies, all counts are missing. An aggregator that is killed and started again meanwhile keeps the keys that
// it finds in Redis.
func TestDeadKafka_LeavesLimitsInForce(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", noInputRules)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	down := sync.OnceFunc(cluster.Close)
	t.Cleanup(down)
	broker := cluster.ListenAddrs()[0]
	in, collectorAdmin := freeport.Addr(t), freeport.Addr(t)
	start := func() (*program.Process, string) {
		admin := freeport.Addr(t)
		p := launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--aggregator.id", "alone",
			"--kafka.brokers", broker, "--admin.listen", admin)
		ready(t, admin)
		return p, admin
	}
	p, admin := start()
	launch(t, "collector", "--config", config, "--statsd.listen", in, "--kafka.brokers", broker, "--admin.listen",
		collectorAdmin)
	ready(t, collectorAdmin)
	w := watchKeys(t, redis, topic(0))
	l := startLoad(t, in)
	l.ids[0].Store(true)
	program.Await(t, time.Minute, "topic 0 to be hot", func() bool { return w.hot(topic(0)) })
	down()
	stays := func() {
		t.Helper()
		program.Await(t, time.Minute, "the collector to be not ready", func() bool {
			status, body := get(t, "http://"+collectorAdmin+"/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(body, "brokers") &&
				metric(t, collectorAdmin, "hotparam_kafka_connected") == "0"
		})
		program.Await(t, time.Minute, "the aggregator to have no input",
			func() bool { return metric(t, admin, "hotparam_aggregate_no_input") == "1" })
		for range 100 {
			<-time.After(100 * time.Millisecond)
			if !w.hot(topic(0)) {
				t.Fatal("a key has cooled in the dark")
			}
		}
		if st := w.mirror.Stats(time.Now()); st.NoInputPublishers != 1 || st.StalePublishers != 0 || st.AgeSeconds > 3 {
			t.Errorf("%+v", st)
		}
		if status, body := get(t, "http://"+admin+"/readyz"); status != http.StatusServiceUnavailable ||
			!strings.Contains(body, "brokers") {
			t.Errorf("/readyz: %d %s", status, body)
		}
	}
	stays()
	p.Signal(os.Kill)
	p.Wait(5 * time.Second)
	p, admin = start()
	stays()
	if code := p.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	<-time.After(2 * lease)
	if !w.hot(topic(0)) {
		t.Error("an orderly stop disarmed the limiters")
	}
}
