package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/test/internal/program"
)

// judge is a StatsD server that sums the counts that it receives.
type judge struct {
	addr string
	mu   sync.Mutex // guards sums
	sums map[hottype.Key]int64
}

func startJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{sums: map[hottype.Key]int64{}}
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{"127.0.0.1:0"}, Names: canon.Names{Prefix: "hotparam"}, Log: quiet,
		Handle: func(counts []hottype.Count) {
			j.mu.Lock()
			defer j.mu.Unlock()
			for _, c := range counts {
				j.sums[c.Key] += c.N
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	j.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return j
}

func (j *judge) snapshot() (keys map[hottype.Key]bool, total int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	keys = map[hottype.Key]bool{}
	for k, n := range j.sums {
		keys[k] = true
		total += n
	}
	return keys, total
}

// Several servers share the keys, and each key has one of them. A server that cannot be reached loses its own share
// only, and is reported.
func TestRedisServers_ShareKeys(t *testing.T) {
	t.Parallel()
	const gone = "statsd.invalid:8125"
	a, b := startJudge(t), startJudge(t)
	in, admin := freeport.Addr(t), freeport.Addr(t)
	launch(t, "collector", "--config", write(t, "hotparam.yaml", pipelineRules), "--statsd.listen", in,
		"--statsd.addr", strings.Join([]string{a.addr, gone, b.addr}, ","), "--admin.listen", admin)
	ready(t, admin)
	conn, err := net.Dial("udp", in)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const rounds, keys = 3, 300
	for round := range rounds {
		for k := range keys {
			if _, err := fmt.Fprintf(conn, "hotparam.topic.hot_param.id=%d:1|c", k); err != nil {
				t.Fatal(err)
			}
		}
		program.Await(t, time.Minute, "the counts to arrive or to be lost", func() bool {
			_, fromA := a.snapshot()
			_, fromB := b.snapshot()
			return fromA+fromB+dropped(t, admin, gone) == int64(keys*(round+1))
		})
	}
	ofA, fromA := a.snapshot()
	ofB, fromB := b.snapshot()
	for k := range ofA {
		if ofB[k] {
			t.Errorf("%s went to both", k)
		}
	}
	if int64(len(ofA)*rounds) != fromA || int64(len(ofB)*rounds) != fromB {
		t.Errorf("keys moved: %d with %d requests, %d with %d", len(ofA), fromA, len(ofB), fromB)
	}
	if len(ofA) < keys/5 || len(ofB) < keys/5 {
		t.Errorf("shares of %d and %d keys", len(ofA), len(ofB))
	}
}

// dropped reads the number of counts that a program reports as lost for one server.
func dropped(t *testing.T, admin, server string) int64 {
	t.Helper()
	status, metrics := get(t, "http://"+admin+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("metrics: %d", status)
	}
	_, after, _ := strings.Cut(metrics, `hotparam_statsd_servers_dropped_total{server="`+server+`"} `)
	number, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Fatalf("no count of what %s lost: %v\n%s", server, err, metrics)
	}
	return n
}
