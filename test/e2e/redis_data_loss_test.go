package e2e

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// A Redis that was emptied, or started again without data, has the hot set again within a second; limiters keep their
// hot set meanwhile and report its age.
func TestHotSet_ReturnsAfterRedisLostIt(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	statsd, admin, sidecar := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", pipelineRules)
	launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--statsd.listen", statsd,
		"--admin.listen", admin)
	launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--decide.listen", freeport.Addr(t),
		"--admin.listen", sidecar)
	ready(t, admin)
	ready(t, sidecar)
	w := watchKeys(t, redis, topic(0))
	startLoad(t, statsd).ids[0].Store(true)
	program.Await(t, time.Minute, "topic 0 to be hot", func() bool { return w.hot(topic(0)) })
	age := func() float64 {
		n, err := strconv.ParseFloat(metric(t, sidecar, "hotparam_hotset_age_seconds"), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	program.Await(t, time.Minute, "a young mirror", func() bool { n := age(); return n >= 0 && n < 1.5 })
	lose := map[string]func(){
		"flushed": redis.Flush,
		"restarted": func() {
			redis.Stop()
			program.Await(t, time.Minute, "an old mirror", func() bool { return age() > 1.5 })
			redis.Relaunch()
		},
	}
	for _, what := range []string{"flushed", "restarted"} {
		version := w.mirror.Stats(time.Now()).Version
		lose[what]()
		start := time.Now()
		rdb := redis.Client()
		program.Await(t, time.Second+slack, what+": the set in Redis", func() bool {
			index, err := rdb.HGetAll(context.Background(), "hp:{e2e}:hot:index").Result()
			return err == nil && len(index) == 1
		})
		t.Logf("%s: published again after %v", what, time.Since(start).Round(time.Millisecond))
		program.Await(t, time.Minute, what+": the follower has it",
			func() bool { return w.mirror.Stats(time.Now()).Version > version })
	}
	if gap := w.gap(topic(0)); gap > 0 {
		t.Errorf("topic 0 was not known for %v", gap)
	}
	if !streamSays(t, sidecar, "judged ") {
		t.Error("the dashboard does not say how old the hot set is")
	}
}

// streamSays reads the dashboard's events until it contains a text.
func streamSays(t *testing.T, admin, want string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, want) || err != nil {
			return err == nil
		}
	}
}
