package hotparam_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/shared"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Two pipelines share a limit by a caller's client that speaks TLS.
func TestPipelinesShareALimitByATLSClient(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	_, addr := redistest.StartTLS(t, a, a.Issue(time.Now().Add(time.Hour), "127.0.0.1"))
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: a.Client()})
	defer rdb.Close()
	if got := askInTurn(t, rdb)("192.0.2.1"); got != [3]int{204, 204, 429} {
		t.Errorf("two of three are to be allowed: %v", got)
	}
}

// Two pipelines share a limit by a caller's Sentinel client, on the next master too.
func TestPipelinesShareALimitByAFailoverClient(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: s.Addrs()})
	defer rdb.Close()
	thrice := askInTurn(t, rdb)
	if got := thrice("192.0.2.1"); got != [3]int{204, 204, 429} {
		t.Errorf("two of three are to be allowed: %v", got)
	}
	s.Master.Kill()
	s.AwaitSwitch(t)
	clients := 1
	redistest.Eventually(t, "a limit on the new master", func() bool {
		clients++ // a client without requests so far
		return thrice(fmt.Sprintf("192.0.%d.%d", clients/250, clients%250)) == [3]int{204, 204, 429}
	})
}

// askInTurn makes two pipelines that allow an address two requests, and no request without Redis. The function that it
// returns asks three times for one address, alternating between the pipelines.
func askInTurn(t *testing.T, rdb redis.UniversalClient) func(addr string) (codes [3]int) {
	t.Helper()
	var handlers [2]http.Handler
	for i := range handlers {
		with := shared.Config{Redis: rdb, Sink: noSink{}}
		p := newPipeline(t, hotparam.Config{Shared: with, Budget: redistest.Patience}, elsewhere+`
ip: {fixed: {limit: 2, window: 1h, scope: cluster, on_store_failure: closed}}
`)
		stop := run(p)
		t.Cleanup(func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
		handlers[i] = p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}))
	}
	return func(addr string) (codes [3]int) {
		for i := range codes {
			r, w := httptest.NewRequest("GET", "/topic?id=1", nil), httptest.NewRecorder()
			r.RemoteAddr = addr + ":1"
			handlers[i%2].ServeHTTP(w, r)
			codes[i] = w.Code
		}
		return codes
	}
}
