package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// lossyLink forwards datagrams and drops percent of them.
func lossyLink(t *testing.T, to string, percent *atomic.Int64) (addr string) {
	t.Helper()
	in, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	go func() {
		b := make([]byte, 1<<16)
		for random := rand.New(rand.NewPCG(1, 2)); ; {
			n, _, err := in.ReadFrom(b)
			if err != nil {
				return
			}
			if random.Int64N(100) >= percent.Load() {
				_, _ = out.Write(b[:n])
			}
		}
	}()
	return in.LocalAddr().String()
}

// arrivalSite is a Redis, an aggregator, and limiters that send it counts.
type arrivalSite struct {
	t              *testing.T
	config, redis  string
	statsd         string
	aggregator     *program.Process
	aggregatorArgs []string
}

func newArrivalSite(t *testing.T) *arrivalSite {
	t.Helper()
	s := &arrivalSite{t: t, config: write(t, "hotparam.yaml", noInputRules), redis: redistest.Start(t).Addr(),
		statsd: freeport.Addr(t)}
	admin := freeport.Addr(t)
	s.aggregatorArgs = []string{"--config", s.config, "--redis.addr", s.redis, "--aggregator.id", "alone",
		"--statsd.listen", s.statsd, "--admin.listen", admin}
	s.aggregator = launch(t, "aggregator", s.aggregatorArgs...)
	ready(t, admin)
	return s
}

type arrivalLimiter struct {
	*program.Process
	t             *testing.T
	decide, admin string
}

// limiter starts a limiter that sends its counts to an address, and asks it about a topic until the end of the test.
func (s *arrivalSite) limiter(statsd string) *arrivalLimiter {
	s.t.Helper()
	l := &arrivalLimiter{t: s.t, decide: freeport.Addr(s.t), admin: freeport.Addr(s.t)}
	l.Process = launch(s.t, "limiter-sidecar", "--config", s.config, "--redis.addr", s.redis,
		"--decide.listen", l.decide, "--statsd.addr", statsd, "--admin.listen", l.admin, "--gate.budget", budget)
	ready(s.t, l.admin)
	ask(s.t, l.decide, 42)
	return l
}

func (l *arrivalLimiter) loss() float64 {
	l.t.Helper()
	v, err := strconv.ParseFloat(metric(l.t, l.admin, "hotparam_statsd_loss_ratio"), 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

func (l *arrivalLimiter) down() bool {
	l.t.Helper()
	return metric(l.t, l.admin, "hotparam_statsd_down") == "1"
}

// status checks the line of /readyz?verbose about StatsD, in a limiter that stays in service.
func (l *arrivalLimiter) status(ok bool, text string) {
	l.t.Helper()
	status, body := get(l.t, "http://"+l.admin+"/readyz?verbose")
	_, line, _ := strings.Cut(body, `{"name":"statsd",`)
	line, _, _ = strings.Cut(line, "}")
	if status != http.StatusOK || !strings.Contains(line, text) || !strings.Contains(line, fmt.Sprintf(`"ok":%v`, ok)) {
		l.t.Errorf("/readyz?verbose: %d, %q in %s; want %q, ok %v", status, line, body, text, ok)
	}
}

// logged checks the number of lines about the beginning and about the end of an outage.
func (l *arrivalLimiter) logged(begins, ends int) {
	l.t.Helper()
	said := l.Said()
	if b, e := strings.Count(said, "counts do not arrive"), strings.Count(said, "counts arrive again"); b != begins ||
		e != ends || strings.Count(said, `"level":"WARN","msg":"statsd: counts`) > begins+ends {
		l.t.Errorf("%d lines at the beginning and %d at the end, want %d and %d", b, e, begins, ends)
	}
}

// A limiter notices within seconds, and reports once each time, that some and then all of its datagrams are dropped. A
// second limiter without loss reports nothing.
func TestLimiter_ReportsLostCountsOnce(t *testing.T) {
	t.Parallel()
	var percent atomic.Int64
	s := newArrivalSite(t)
	half, whole := s.limiter(lossyLink(t, s.statsd, &percent)), s.limiter(s.statsd)
	program.Await(t, time.Minute, "the loss of both to be known", func() bool {
		return half.loss() >= 0 && whole.loss() >= 0
	})
	half.status(true, "counts arrive")
	for i, lost := range []int64{20, 100} {
		began := time.Now()
		percent.Store(lost)
		program.Await(t, time.Minute, "the limiter to notice", half.down)
		t.Logf("%d %% lost: noticed after %v, loss %v", lost, time.Since(began).Round(time.Millisecond), half.loss())
		if loss := half.loss(); loss < 0.05 {
			t.Errorf("loss %v", loss)
		}
		half.status(false, "arrive")
		half.logged(i+1, i)
		if whole.down() || whole.loss() > 0.05 {
			t.Errorf("the other limiter: loss %v", whole.loss())
		}
		percent.Store(0)
		program.Await(t, time.Minute, "the limiter to recover", func() bool { return !half.down() })
		half.logged(i+1, i+1)
	}
	half.status(true, "counts arrive")
	whole.logged(0, 0)
	if said := s.aggregator.Said(); strings.Contains(said, "WARN") && strings.Contains(said, "malformed") {
		t.Error("the aggregator does not understand heartbeats")
	}
}

// A StatsD server that nothing reads, or a host where nothing listens and which reports so now and then, is reported
// once, not each second.
func TestLimiter_ReportsAbsentStatsDOnce(t *testing.T) {
	t.Parallel()
	s := newArrivalSite(t)
	healthy := s.limiter(s.statsd)
	unread, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	limiters := map[string]*arrivalLimiter{"unread": s.limiter(unread.LocalAddr().String())}
	if host, ok := hostWithoutServer(t); ok {
		limiters["another host"] = s.limiter(host)
	}
	for name, l := range limiters {
		began := time.Now()
		program.Await(t, time.Minute, name+": the limiter to notice", l.down)
		t.Logf("%s: noticed after %v, loss %v", name, time.Since(began).Round(100*time.Millisecond), l.loss())
	}
	for range 100 {
		<-time.After(100 * time.Millisecond)
		for name, l := range limiters {
			if !l.down() {
				t.Fatalf("%s: not down any more", name)
			}
		}
	}
	for _, l := range limiters {
		l.status(false, "arrive")
		l.logged(1, 0)
		if l.loss() != 1 {
			t.Errorf("loss %v", l.loss())
		}
	}
	healthy.logged(0, 0)
}

// hostWithoutServer returns an address of a network namespace of its own, behind a pair of virtual devices, where no
// program listens, or false if the system does not let this test make one.
func hostWithoutServer(t *testing.T) (addr string, ok bool) {
	t.Helper()
	n := rand.IntN(200)
	name := fmt.Sprintf("hp%d", rand.IntN(1_000_000))
	run := func(args ...string) bool { return exec.Command("ip", args...).Run() == nil }
	t.Cleanup(func() { run("link", "del", name+"a"); run("netns", "del", name) })
	here, there := fmt.Sprintf("10.213.%d.1/30", n), fmt.Sprintf("10.213.%d.2", n)
	for _, args := range [][]string{
		{"netns", "add", name}, {"link", "add", name + "a", "type", "veth", "peer", "name", "b", "netns", name},
		{"addr", "add", here, "dev", name + "a"}, {"link", "set", "dev", name + "a", "up"},
		{"-n", name, "addr", "add", there + "/30", "dev", "b"}, {"-n", name, "link", "set", "dev", "b", "up"},
	} {
		if !run(args...) {
			t.Logf("no network namespace: ip %s", strings.Join(args, " "))
			return "", false
		}
	}
	return there + ":8125", true
}

// An aggregator that is restarted, or killed and started again, is no loss of its senders.
func TestAggregator_RestartIsNoLoss(t *testing.T) {
	t.Parallel()
	s := newArrivalSite(t)
	l := s.limiter(s.statsd)
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		program.Await(t, time.Minute, "the loss to be known", func() bool { return l.loss() >= 0 })
		s.aggregator.Signal(end)
		s.aggregator.Wait(15 * time.Second)
		s.aggregator = launch(t, "aggregator", s.aggregatorArgs...)
		for range 100 {
			<-time.After(100 * time.Millisecond)
			if l.down() || l.loss() > 0.05 {
				t.Fatalf("after %v: loss %v, down %v", end, l.loss(), l.down())
			}
		}
	}
	l.status(true, "counts arrive")
	l.logged(0, 0)
}

// Behind a collector the loss up to the collector is known, and a collector that sends to Kafka or a real StatsD server
// in between is no reason for an alarm.
func TestCollector_KnowsLossBeforeIt(t *testing.T) {
	t.Parallel()
	var percent atomic.Int64
	s := newArrivalSite(t)
	in, collectorAdmin := freeport.Addr(t), freeport.Addr(t)
	launch(t, "collector", "--config", s.config, "--statsd.listen", in, "--statsd.addr", s.statsd, "--admin.listen",
		collectorAdmin)
	ready(t, collectorAdmin)
	l := s.limiter(lossyLink(t, in, &percent))
	program.Await(t, time.Minute, "the loss to be known", func() bool { return l.loss() >= 0 })
	for range 50 {
		<-time.After(100 * time.Millisecond)
		if l.down() {
			t.Fatalf("loss %v", l.loss())
		}
	}
	percent.Store(50)
	program.Await(t, time.Minute, "the limiter to notice", l.down)
	if status, body := get(t, "http://"+collectorAdmin+"/readyz?verbose"); status != http.StatusOK ||
		!strings.Contains(body, "unknown whether counts arrive") {
		t.Errorf("/readyz?verbose of the collector: %d %s", status, body)
	}
}
