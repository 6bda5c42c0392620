package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Two aggregators share a topic: one joins, leaves and dies while a key is hot.
// The key is never unknown for longer than the group needs to notice, and never
// counted by both.
func TestAggregators_ShareATopic(t *testing.T) {
	t.Parallel()
	const session = 6 * time.Second
	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", pipelineRules)
	in, out := joinBy(t, "kafka")
	statsd, collector := freeport.Addr(t), freeport.Addr(t)
	start := func(id string) (*program.Process, string) {
		admin := freeport.Addr(t)
		p := launch(t, "aggregator", append(in, "--config", config, "--redis.addr", redis.Addr(), "--aggregator.id", id,
			"--kafka.session_timeout", session.String(), "--admin.listen", admin)...)
		ready(t, admin)
		return p, admin
	}
	_, admin := start("a")
	launch(t, "collector", append(out, "--config", config, "--statsd.listen", statsd, "--admin.listen", collector)...)
	ready(t, collector)
	w := watchKeys(t, redis, topic(0), topic(1), topic(2))
	l := startLoad(t, statsd)
	for id := range l.ids {
		l.ids[id].Store(true)
	}
	known := func() bool { return w.hot(topic(0)) && w.hot(topic(1)) && w.hot(topic(2)) }
	program.Await(t, time.Minute, "the topics to be hot", known)
	partitions := func(want string) {
		t.Helper()
		program.Await(t, time.Minute, want+" partitions of the first one",
			func() bool { return metric(t, admin, "hotparam_kafka_in_partitions") == want })
		for i := range 40 { // a window and more
			<-time.After(100 * time.Millisecond)
			if i == 25 {
				// While a key moves its two sets may be a second apart.
				for id := range l.ids {
					w.peak(topic(id))
				}
			}
		}
	}
	check := func(what string, most time.Duration) {
		t.Helper()
		for id := range l.ids {
			gap, peak := w.gap(topic(id)), w.peak(topic(id))
			t.Logf("%s: topic %d was not known for %v, its highest rate afterwards was %.0f/s of 200", what, id,
				gap.Round(time.Millisecond), peak)
			if gap > most+ticks+slack || !w.hot(topic(id)) {
				t.Errorf("%s: topic %d was not known for %v", what, id, gap)
			}
			if peak > 330 { // a process that stood still catches up; twice would be 400
				t.Errorf("%s: topic %d was counted twice: %.0f/s", what, id, peak)
			}
		}
	}
	partitions("8")
	check("alone", 0)
	b, _ := start("b")
	partitions("4")
	check("joined", 0)
	if code := b.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	partitions("8")
	check("left", 0)
	b, _ = start("b")
	partitions("4")
	b.Signal(os.Kill)
	partitions("8")
	check("died", session)
	if strings.Contains(b.Said(), "standing by") {
		t.Error("two names, and one stands by")
	}
}

// The keys of an aggregator that has died end when another one has read its partitions for a window and finds them
// cold, long before the time for which keys of a silent publisher are kept.
func TestDeadAggregator_KeysEnd(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", pipelineRules)
	in, out := joinBy(t, "kafka")
	start := func(id string) (*program.Process, string) {
		admin := freeport.Addr(t)
		p := launch(t, "aggregator", append(in, "--config", config, "--redis.addr", redis.Addr(), "--aggregator.id", id,
			"--kafka.session_timeout", "6s", "--admin.listen", admin)...)
		ready(t, admin)
		return p, admin
	}
	_, admin := start("a")
	b, second := start("b")
	statsd, collector := freeport.Addr(t), freeport.Addr(t)
	launch(t, "collector", append(out, "--config", config, "--statsd.listen", statsd, "--admin.listen", collector)...)
	ready(t, collector)
	program.Await(t, time.Minute, "both to have partitions", func() bool {
		return metric(t, admin, "hotparam_kafka_in_partitions") == "4" &&
			metric(t, second, "hotparam_kafka_in_partitions") == "4"
	})
	w := watchKeys(t, redis, topic(0), topic(1), topic(2))
	hot := func() (n int) {
		for id := range 3 {
			if w.hot(topic(id)) {
				n++
			}
		}
		return n
	}
	l := startLoad(t, statsd)
	for id := range l.ids {
		l.ids[id].Store(true)
	}
	program.Await(t, time.Minute, "the topics to be hot", func() bool { return hot() == 3 })
	if metric(t, second, "hotparam_aggregate_detect_hot") == "0" {
		t.Error("the aggregator that dies has no hot key")
	}
	b.Signal(os.Kill)
	program.Await(t, time.Minute, "the other one to read everything",
		func() bool { return metric(t, admin, "hotparam_kafka_in_partitions") == "8" })
	program.Await(t, time.Minute, "the other one to find all keys",
		func() bool { return metric(t, admin, "hotparam_aggregate_detect_hot") == "3" })
	if hot() != 3 {
		t.Errorf("%d topics are hot, and all are asked for", hot())
	}
	for id := range l.ids {
		l.ids[id].Store(false)
	}
	program.Await(t, time.Minute, "the topics to be cold", func() bool { return hot() == 0 })
}
