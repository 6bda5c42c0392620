package hotparam_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// Two pipelines share a limit by a caller's client that speaks TLS.
func TestPipelinesShareALimitByATLSClient(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	until := time.Now().Add(time.Hour)
	_, addr := redistest.StartTLS(t, a, a.Issue(until, "127.0.0.1"))
	files := a.Issue(until, "client")
	client, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(a.CA)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{client}}})
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
		clients++ // nothing is known of this one
		return thrice(fmt.Sprintf("192.0.%d.%d", clients/250, clients%250)) == [3]int{204, 204, 429}
	})
}

// askInTurn makes two pipelines that allow an address two requests, and none without Redis. The function it returns
// asks three times for one address, each time another pipeline than the time before.
func askInTurn(t *testing.T, rdb redis.UniversalClient) func(addr string) (codes [3]int) {
	t.Helper()
	var handlers [2]http.Handler
	for i := range handlers {
		p := newPipeline(t, hotparam.Config{Redis: rdb, Sink: noSink{}, Budget: redistest.Patience}, `
ip: {fixed: {limit: 2, window: 1h, scope: cluster, on_store_failure: closed}}
`)
		stop := run(p)
		t.Cleanup(func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
		handlers[i] = p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
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
