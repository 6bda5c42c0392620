package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const soakRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 50, min_clients: 5}, limit: {rate: 50}}
ip:
  fixed:   {limit: 20, window: 1s}
  sliding: {limit: 300, window: 60s}
  trusted_proxies: ["127.0.0.1/32", "::1/128"]
`

// soakSubjects is so small that the tables of clients are full early. This includes the table of a sidecar, which only
// gets the clients that are decided while Redis does not answer in time. With the default of a million they would take
// up to ten minutes.
const soakSubjects = "20000"

// soakKeys is the number of keys, each of an address of its own, that all ways together send.
const soakKeys = 5_000_000

// TestSoak_MemoryStaysBounded sends millions of distinct keys, each from an address of its own, and one key that is
// hot, through serve (by the reverse proxy and by batches of decisions) and to a sidecar with gRPC beside its
// aggregator and Redis. After the first fifth of the time no program takes more memory.
func TestSoak_MemoryStaysBounded(t *testing.T) {
	text := os.Getenv("SOAK")
	if text == "" {
		t.Skip("takes ten minutes: make soak")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	programs := map[string]*program.Process{}
	ways := append(soakServe(t, programs), soakSidecar(t, programs)...)
	rss := map[string][]int64{}
	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	var senders sync.WaitGroup
	for _, w := range ways {
		senders.Go(func() { w.run(ctx, duration) })
	}
	began := time.Now()
	for tick := time.NewTicker(duration / 120); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick.C:
			for name, p := range programs {
				rss[name] = append(rss[name], p.Memory()>>20)
			}
		}
	}
	senders.Wait()
	for _, w := range ways {
		t.Logf("%s: %d keys and addresses in %v, %d denied, %d failed", w.name, w.sent.Load(),
			time.Since(began).Round(time.Second), w.denied.Load(), w.failed.Load())
		if w.denied.Load() == 0 || w.failed.Load() > w.sent.Load()/1000 {
			t.Errorf("%s: the hot key was never denied, or requests failed", w.name)
		}
	}
	for name, all := range rss {
		n := len(all)
		early, late := slices.Max(all[n/5:n/2]), slices.Max(all[n/2:])
		t.Logf("%s, MiB: first fifth at most %d, until half time %d, then %d", name, slices.Max(all[:n/5]), early, late)
		if late > early+early/10+4 {
			t.Errorf("%s grows: %v MiB", name, all)
		}
	}
}

// soakWay sends keys in calls of round keys, at an even rate, with one call at a time in each of its workers.
type soakWay struct {
	name                 string
	share                int64 // of soakKeys, in percent
	round                int64
	send                 func(first, n int64) (denied int64, err error)
	sent, denied, failed atomic.Int64
}

func (w *soakWay) run(ctx context.Context, d time.Duration) {
	const workers = 64
	total, began := soakKeys*w.share/100, time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				first := next.Add(w.round) - w.round
				due := time.Duration(float64(d) * float64(first) / float64(total))
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(began.Add(due))):
				}
				denied, err := w.send(first, w.round)
				w.sent.Add(w.round)
				w.denied.Add(denied)
				if err != nil && ctx.Err() == nil {
					w.failed.Add(1)
				}
			}
		})
	}
	all.Wait()
}

// soakTarget is the i-th request: the last of 25 is for the hot key, all others for a key of their own.
func soakTarget(i int64) (target, client string) {
	target = fmt.Sprint("/topic?id=", i)
	if i%25 == 24 {
		target = "/topic?id=viral"
	}
	return target, fmt.Sprintf("2a00:%x:%x::1", i&0xffff, i>>16) // neighbours are of other networks
}

func soakServe(t *testing.T, programs map[string]*program.Process) []*soakWay {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "page")
	}))
	t.Cleanup(upstream.Close)
	addr, decide, admin := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	programs["serve"] = launch(t, "hotparam", "serve", "--config", write(t, "hotparam.yaml", soakRules), "--upstream",
		upstream.URL, "--listen", addr, "--decide.listen", decide, "--admin.listen", admin, "--state.dir", t.TempDir(),
		"--gate.max_subjects", soakSubjects)
	ready(t, admin)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	proxy := &soakWay{name: "serve, reverse proxy", share: 10, round: 1, send: func(i, _ int64) (int64, error) {
		target, from := soakTarget(i)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+target, http.NoBody)
		if err != nil {
			return 0, err
		}
		req.Header.Set("X-Forwarded-For", from)
		return soakStatus(client, req)
	}}
	batches := &soakWay{name: "serve, /v1/decide", share: 90, round: 200, send: func(first, n int64) (int64, error) {
		var body bytes.Buffer
		for i := first + soakKeys; i < first+soakKeys+n; i++ { // not the proxy's
			target, from := soakTarget(i)
			fmt.Fprintf(&body, `,{"method":"GET","uri":%q,"host":"a","ip":%q}`, target, from)
		}
		body.WriteByte(']')
		body.Bytes()[0] = '['
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+decide+"/v1/decide", &body)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		verdicts, err := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("status %d", res.StatusCode)
		}
		return int64(bytes.Count(verdicts, []byte(`"allowed":false`))), err
	}}
	return []*soakWay{proxy, batches}
}

func soakStatus(client *http.Client, req *http.Request) (denied int64, err error) {
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests:
		denied = 1
	default:
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	return denied, err
}

func soakSidecar(t *testing.T, programs map[string]*program.Process) []*soakWay {
	config, redis := write(t, "hotparam.yaml", soakRules), redistest.Start(t).Addr()
	statsd, envoy, admins := freeport.Addr(t), freeport.Addr(t), []string{freeport.Addr(t), freeport.Addr(t)}
	programs["aggregator"] = launch(t, "aggregator", "--config", config, "--redis.addr", redis, "--statsd.listen",
		statsd, "--admin.listen", admins[0])
	programs["limiter-sidecar"] = launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis,
		"--statsd.addr", statsd, "--envoy.listen", envoy, "--admin.listen", admins[1],
		"--gate.max_subjects", soakSubjects)
	ready(t, admins[0])
	ready(t, admins[1])
	conn, err := grpc.NewClient(envoy, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	service, limits := authv3.NewAuthorizationClient(conn), ratelimitv3.NewRateLimitServiceClient(conn)
	checks := &soakWay{name: "sidecar, authorization", share: 10, round: 1, send: func(i, _ int64) (int64, error) {
		target, from := soakTarget(i)
		res, err := service.Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
				SocketAddress: &corev3.SocketAddress{Address: from}}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: http.MethodGet, Host: "a", Path: target}},
		}})
		if err != nil || res.GetStatus().GetCode() == 0 {
			return 0, err
		}
		return 1, nil
	}}
	calls := &soakWay{name: "sidecar, rate limits", share: 90, round: 25, send: func(first, n int64) (int64, error) {
		call := &ratelimitv3.RateLimitRequest{Domain: "soak"}
		for i := first + soakKeys; i < first+soakKeys+n; i++ {
			target, from := soakTarget(i)
			call.Descriptors = append(call.Descriptors, &commonv3.RateLimitDescriptor{
				Entries: []*commonv3.RateLimitDescriptor_Entry{
					{Key: "path", Value: target}, {Key: "remote_address", Value: from}}})
		}
		res, err := limits.ShouldRateLimit(t.Context(), call)
		if err != nil || res.GetOverallCode() == ratelimitv3.RateLimitResponse_OK {
			return 0, err
		}
		return 1, nil
	}}
	return []*soakWay{checks, calls}
}
