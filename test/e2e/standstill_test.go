package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Many clients request topics 0 and 1, one client requests topic 2, and many request topic 9 far more often.
const (
	coldTopics = 3
	hotTopic   = 9
)

// standstillSite is a pipeline whose processes are stopped in turn.
type standstillSite struct {
	t                 *testing.T
	config, redis     string
	aggregator        *program.Process
	dashboard, decide string
	limiterAdmin      string
	stopped           []*program.Process
	names             []string
	read              int // bytes of the aggregator\'s log that were judged
}

// A process that was stopped makes no key hot and finds no loop because of the counts that waited for it, and hot keys
// stay hot: by each transport, for each process.
func TestStandstill_MakesNothingHot(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*standstillSite){
		"udp":       (*standstillSite).byUDP,
		"tcp":       (*standstillSite).byTCP,
		"collector": (*standstillSite).byCollector,
		"kafka":     (*standstillSite).byKafka,
		"graphite":  (*standstillSite).byGraphite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := ", min_clients: 5"
			if name == "tcp" || name == "graphite" { // clients are unknown
				clients = ""
			}
			rules := strings.Replace(pipelineRules, "cooldown: 2s", "cooldown: 10s"+clients, 1)
			s := &standstillSite{t: t, config: write(t, "hotparam.yaml", rules), redis: redistest.Start(t).Addr(),
				dashboard: freeport.Addr(t)}
			start(s)
			s.stopAll(standstills())
		})
	}
}

// standstills are the times for which each process is stopped.
func standstills() []time.Duration {
	if os.Getenv("HOTPARAM_NIGHTLY") != "" {
		return []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second}
	}
	return []time.Duration{3 * time.Second}
}

func (s *standstillSite) byUDP() {
	addr := freeport.Addr(s.t)
	s.startAggregator("--statsd.listen", addr)
	s.startLimiter("--statsd.addr", addr)
}

func (s *standstillSite) byCollector() {
	addr := freeport.Addr(s.t)
	s.startAggregator("--statsd.listen", addr)
	s.startLimiter("--statsd.addr", s.startCollector(addr))
}

func (s *standstillSite) byKafka() {
	in, out := joinBy(s.t, "kafka")
	s.startAggregator(in...)
	s.startLimiter(out...)
}

// byGraphite joins the programs by a third-party StatsD server, and a collector that does not know whether its lines
// may carry their second.
func (s *standstillSite) byGraphite() {
	statsd, web := startCarbon(s.t)
	s.startAggregator("--graphite.url", web, "--statsd.listen", "")
	s.startLimiter("--statsd.addr", s.startCollector(statsd))
}

// byTCP stands for third-party senders that keep a connection open.
func (s *standstillSite) byTCP() {
	addr := freeport.Addr(s.t)
	s.startAggregator("--statsd.listen", "tcp://"+addr)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	var mu sync.Mutex
	s.visit(func(id, _ int) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(conn, "hotparam.topic.hot_param.id=%d:1|c\n", id)
	})
	s.t.Cleanup(func() { _ = conn.Close() })
}

func (s *standstillSite) start(name, admin string, args ...string) *program.Process {
	p := launch(s.t, name, append(args, "--config", s.config, "--admin.listen", admin)...)
	ready(s.t, admin)
	s.stopped, s.names = append(s.stopped, p), append(s.names, name)
	return p
}

func (s *standstillSite) startAggregator(args ...string) {
	s.aggregator = s.start("aggregator", s.dashboard, append(args, "--redis.addr", s.redis,
		"--aggregator.id", "alone")...)
}

// startCollector returns the address to which its senders send.
func (s *standstillSite) startCollector(statsd string) string {
	addr := freeport.Addr(s.t)
	s.start("collector", freeport.Addr(s.t), "--statsd.listen", addr, "--statsd.addr", statsd)
	return addr
}

// startLimiter also starts its clients, each of which waits for an answer before it asks again.
func (s *standstillSite) startLimiter(args ...string) {
	s.decide, s.limiterAdmin = freeport.Addr(s.t), freeport.Addr(s.t)
	s.start("limiter-sidecar", s.limiterAdmin, append(args, "--redis.addr", s.redis, "--decide.listen", s.decide,
		"--gate.budget", budget)...)
	s.visit(func(id, client int) {
		do(s.t, http.MethodPost, "http://"+s.decide+"/v1/decide",
			fmt.Sprintf(`{"method":"GET","uri":"/topic?id=%d","ip":"192.0.2.%d"}`, id, client),
			http.Header{"Content-Type": {"application/json"}})
	})
}

// visit requests each cold topic 40 times a second, where 50 would make it hot, and the hot topic 120 times, until the
// end of the test.
func (s *standstillSite) visit(ask func(id, client int)) {
	stop := make(chan struct{})
	var visitors sync.WaitGroup
	s.t.Cleanup(func() { close(stop); visitors.Wait() })
	visitor := func(id, perSecond int) {
		visitors.Go(func() {
			tick := time.NewTicker(time.Second / time.Duration(perSecond))
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				client := 1
				if id != coldTopics-1 {
					client += i % 40
				}
				ask(id, client)
			}
		})
	}
	for id := range coldTopics {
		visitor(id, 40)
	}
	for range 6 {
		visitor(hotTopic, 20)
	}
}

// stopAll stops each process for each time, and checks that exactly the hot topic is known.
func (s *standstillSite) stopAll(standstills []time.Duration) {
	program.Await(s.t, time.Minute, "the hot topic", func() bool { return s.hot(s.dashboard, topic(hotTopic)) })
	for _, d := range standstills {
		for i, p := range s.stopped {
			p.Signal(syscall.SIGSTOP)
			<-time.After(d)
			p.Signal(syscall.SIGCONT)
			// While its only limiter is stopped, a site has no requests, and a hot key may cool.
			what, asked := fmt.Sprintf("%s stopped for %v", s.names[i], d), s.names[i] != "limiter-sidecar"
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
				if asked && s.limiterAdmin != "" && !s.hot(s.limiterAdmin, topic(hotTopic)) {
					s.t.Errorf("%s: the limiter does not know the hot topic", what)
					break
				}
			}
			s.judge(what, asked)
		}
	}
}

// judge reads the lines that the aggregator has logged about keys since the last call. The parameter asked is true if
// the hot topic was requested all the time. It returns when the topic is hot.
func (s *standstillSite) judge(what string, asked bool) {
	s.t.Helper()
	program.Await(s.t, time.Minute, what+": the hot topic", func() bool { return s.hot(s.dashboard, topic(hotTopic)) })
	said := s.aggregator.Said()
	said, s.read = said[s.read:], len(said)
	for line := range strings.Lines(said) {
		isHot := strings.Contains(line, topic(hotTopic))
		switch {
		case strings.Contains(line, "a key became hot") && !isHot, strings.Contains(line, "aggregate: a loop"),
			strings.Contains(line, "a key is cold again") && isHot && asked:
			s.t.Errorf("%s: %s", what, line)
		}
	}
}

// hot reports whether a program lists a key as hot. A program that does not answer is asked again.
func (s *standstillSite) hot(admin, key string) bool {
	s.t.Helper()
	var body string
	program.Await(s.t, time.Minute, "/v1/hot", func() bool {
		var status int
		status, body = get(s.t, "http://"+admin+"/v1/hot")
		return status == http.StatusOK
	})
	return strings.Contains(body, `"`+key+`"`)
}

// startCarbon stands for a third-party StatsD server with Graphite: lines count in the second in which they arrive, and
// each second is a point.
func startCarbon(t *testing.T) (statsd, web string) {
	t.Helper()
	in, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	var mu sync.Mutex
	series := map[string]map[int64]int{}
	add := func(name string, second int64, n int) {
		if series[name] == nil {
			series[name] = map[int64]int{}
		}
		series[name][second] += n
	}
	line := regexp.MustCompile(`(?m)^(hotparam\.topic\.[^:]*):(\d+)\|c$`)
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, _, err := in.ReadFrom(b)
			if err != nil {
				return
			}
			second := time.Now().Unix()
			mu.Lock()
			for _, m := range line.FindAllStringSubmatch(string(b[:n]), -1) {
				count, _ := strconv.Atoi(m[2])
				add("stats_counts."+m[1], second, count)
			}
			if strings.Contains(string(b[:n]), "hotparam.alive:") {
				add("stats.sets.hotparam.alive.count", second, 1)
			}
			mu.Unlock()
		}
	}()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		back, _ := strconv.ParseInt(strings.Trim(r.FormValue("from"), "-s"), 10, 64)
		now := time.Now().Unix()
		type answer struct {
			Target     string     `json:"target"`
			Datapoints [][2]int64 `json:"datapoints"`
		}
		answers := []answer{}
		mu.Lock()
		for name, counts := range series {
			a := answer{Target: name}
			for second := now - back; second < now; second++ {
				a.Datapoints = append(a.Datapoints, [2]int64{int64(counts[second]), second + 1})
			}
			answers = append(answers, a)
		}
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answers)
	}))
	t.Cleanup(server.Close)
	return in.LocalAddr().String(), server.URL
}
