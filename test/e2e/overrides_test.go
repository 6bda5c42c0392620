package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// blocks is an aggregator and a limiter on one Redis. Its methods see overrides as an operator does.
type blocks struct {
	t          *testing.T
	redis      *redistest.Server
	aggregator *program.Process
	args       []string  // of the aggregator
	admin      [2]string // of aggregator and limiter
	decide     string
}

func startBlocks(t *testing.T) *blocks {
	t.Helper()
	b := &blocks{t: t, redis: redistest.Start(t), decide: freeport.Addr(t)}
	b.admin = [2]string{freeport.Addr(t), freeport.Addr(t)}
	config := write(t, "hotparam.yaml", pipelineRules)
	b.args = []string{"--config", config, "--redis.addr", b.redis.Addr(), "--statsd.listen", freeport.Addr(t),
		"--admin.listen", b.admin[0]}
	b.aggregator = launch(t, "aggregator", b.args...)
	launch(t, "limiter-sidecar", "--config", config, "--redis.addr", b.redis.Addr(), "--sidecar.count", "none",
		"--decide.listen", b.decide, "--admin.listen", b.admin[1], "--gate.budget", budget)
	ready(t, b.admin[0])
	ready(t, b.admin[1])
	return b
}

// listed returns the ids of the overrides that an API lists.
func (b *blocks) listed(admin string) []string {
	var answer struct{ Overrides []struct{ ID string } }
	status, body := get(b.t, "http://"+admin+"/v1/overrides")
	if status != http.StatusOK || json.Unmarshal([]byte(body), &answer) != nil {
		return []string{body}
	}
	ids := []string{}
	for _, o := range answer.Overrides {
		ids = append(ids, o.ID)
	}
	slices.Sort(ids)
	return ids
}

// enforced returns the topics that the limiter denies.
func (b *blocks) enforced(topics ...string) []string {
	ids := []string{}
	for _, id := range topics {
		_, body := do(b.t, http.MethodPost, "http://"+b.decide+"/v1/decide",
			`{"method":"GET","uri":"/topic?id=`+id+`","ip":"192.0.2.1"}`,
			http.Header{"Content-Type": {"application/json"}})
		if strings.Contains(body, `"allowed":false`) {
			ids = append(ids, id)
		}
	}
	return ids
}

// agree waits until the limiter enforces the wanted overrides, and the API of both programs lists the same.
func (b *blocks) agree(when string, want ...string) {
	b.t.Helper()
	begin := time.Now()
	program.Await(b.t, 10*time.Second, when+": "+strings.Join(want, " ")+" listed and enforced", func() bool {
		return slices.Equal(b.enforced("a", "b", "c"), want) && slices.Equal(b.listed(b.admin[0]), want) &&
			slices.Equal(b.listed(b.admin[1]), want)
	})
	b.t.Logf("%s: agreed after %v", when, time.Since(begin).Round(time.Millisecond))
}

func (b *blocks) put(id string) {
	b.t.Helper()
	if status, body := do(b.t, http.MethodPut, "http://"+b.admin[0]+"/v1/overrides/"+id+"?confirm=true",
		`{"key":"topic?id=`+id+`","action":"block","author":"ann"}`, nil); status/100 != 2 {
		b.t.Fatalf("PUT %s: %d %s", id, status, body)
	}
}

func (b *blocks) remove(id string) {
	b.t.Helper()
	if status, body := do(b.t, http.MethodDelete, "http://"+b.admin[0]+"/v1/overrides/"+id, "", nil); status/100 != 2 {
		b.t.Fatalf("DELETE %s: %d %s", id, status, body)
	}
}

// stays checks that no removed override comes back: the state is the same after every program has polled several times.
func (b *blocks) stays(when string, want ...string) {
	b.t.Helper()
	for range 12 {
		time.Sleep(100 * time.Millisecond) // that nothing happens has no condition to wait for
		if got := b.enforced("a", "b", "c"); !slices.Equal(got, want) {
			b.t.Fatalf("%s: %v enforced, want %v", when, got, want)
		}
		if got := b.listed(b.admin[0]); !slices.Equal(got, want) {
			b.t.Fatalf("%s: %v listed, want %v", when, got, want)
		}
	}
}

// Redis loses its data under running programs: overrides that limiters enforce are listed and can be deleted, and
// deleted ones do not come back.
func TestOverrides_AfterRedisLostItsData(t *testing.T) {
	t.Parallel()
	b := startBlocks(t)
	b.put("a")
	b.put("b")
	b.agree("at first", "a", "b")
	b.redis.Flush()
	b.agree("after FLUSHALL", "a", "b")
	b.remove("a")
	b.agree("deleted", "b")
	b.stays("deleted", "b")
	b.redis.Flush()
	b.remove("b") // before any program has polled Redis
	b.agree("all deleted")
	b.put("c")
	b.agree("put", "c")
	b.redis.Restart() // without persistence
	b.agree("after a restart", "c")

	b.aggregator.Stop()
	b.redis.Flush()
	b.aggregator = launch(t, "aggregator", b.args...)
	ready(t, b.admin[0])
	b.agree("after a restart of the aggregator too", "c")
	b.remove("c")
	b.agree("deleted after that")
	b.stays("deleted after that")
}

// Redis comes back with an older state.
func TestOverrides_AfterOlderRedisState(t *testing.T) {
	t.Parallel()
	b := startBlocks(t)
	b.put("a")
	b.put("b")
	if err := b.redis.Client().Save(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	b.put("c")
	b.remove("a")
	b.agree("before", "b", "c")
	b.redis.Kill()
	b.redis.Relaunch()
	b.agree("with a state from before", "b", "c")
	b.remove("c")
	b.agree("deleted", "b")
	b.stays("deleted", "b")
}

// A limiter that starts again while Redis is away still blocks the keys that operators blocked.
func TestOverrides_HoldWhenLimiterStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	b := &blocks{t: t, redis: redistest.Start(t), decide: freeport.Addr(t)}
	b.admin = [2]string{freeport.Addr(t), freeport.Addr(t)}
	config := write(t, "hotparam.yaml", pipelineRules)
	b.args = []string{"--config", config, "--redis.addr", b.redis.Addr(), "--statsd.listen", freeport.Addr(t),
		"--admin.listen", b.admin[0]}
	b.aggregator = launch(t, "aggregator", b.args...)
	limiter := []string{"--config", config, "--redis.addr", b.redis.Addr(), "--sidecar.count", "none",
		"--decide.listen", b.decide,
		"--admin.listen", b.admin[1], "--gate.budget", budget, "--state.dir", t.TempDir()}
	first := launch(t, "limiter-sidecar", limiter...)
	ready(t, b.admin[0])
	ready(t, b.admin[1])
	b.put("a")
	b.agree("at first", "a")
	first.Stop()
	b.aggregator.Stop()
	b.redis.Kill()
	launch(t, "limiter-sidecar", limiter...)
	ready(t, b.admin[1])
	if got := b.enforced("a", "b"); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("%v enforced without Redis, want a", got)
	}
	b.redis.Restart() // without persistence
	b.aggregator = launch(t, "aggregator", b.args...)
	ready(t, b.admin[0])
	b.agree("after Redis came back empty", "a")
	b.remove("a")
	b.agree("deleted")
}
