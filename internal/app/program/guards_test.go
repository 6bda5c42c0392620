package program

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/listener"
	"github.com/hotparam/pipeline/internal/serving/mirror"
)

// guards lists every listener that a program has: the statuses of a request that a page of another site has a browser
// send, and of one by another site's name, on loopback and without credentials. 0: it speaks no HTTP.
var guards = map[string]struct{ page, host int }{
	"admin.listen":  {403, 421},
	"decide.listen": {403, 421},
	"edge.listen":   {403, 421},
	// A check and a copy carry the fields of the gateway's client, whose page may be any.
	"check.listen":  {200, 200},
	"mirror.listen": {204, 204},
	// The proxy is open by design.
	"proxy.listen": {200, 200},
	// gRPC and SPOE: no page can send them. StatsD has statsd.allow.
	"envoy.listen": {}, "spoe.listen": {}, "statsd.listen": {},
}

// everyListener starts the listeners that speak HTTP, on loopback and without credentials, by the names of their
// settings.
func everyListener(t *testing.T) map[string]*listener.Server {
	t.Helper()
	const own = "127.0.0.1:0"
	log := slog.New(slog.DiscardHandler)
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	var cfg config.Serve
	parse(t, &cfg, "--proxy.listen", own, "--proxy.upstream", upstream.URL, "--admin.listen", own,
		"--decide.listen", own, "--check.listen", own, "--check.dialect", "forwarded", "--edge.listen", own,
		"--state.dir", t.TempDir())
	l, err := NewLocal(t.Context(), cfg, rules.Default(), LocalOptions{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	run(t, l.Run)
	copies := mirror.New(func() *rules.Set { return rules.Default() }, tally.New(tally.Config{Sink: nowhere{}}),
		mirror.Options{Clients: l.clients})
	front, err := l.gateways.listeners.Open(t.Context(), "mirror", own, cfg.Proxy.Listener, copies)
	if err != nil {
		t.Fatal(err)
	}
	run(t, front.Run)
	all := map[string]*listener.Server{}
	for name, s := range l.gateways.listeners.byName {
		all[name+".listen"] = s.(*listener.Server)
	}
	return all
}

type nowhere struct{}

func (nowhere) Send(context.Context, []hottype.Count) error { return nil }

func parse(t *testing.T, cfg any, args ...string) {
	t.Helper()
	p, err := config.Build(cfg, "hotparam", "")
	if err == nil {
		_, err = p.Parse(args)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a part until the test ends.
func run(t *testing.T, part func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	t.Cleanup(func() {
		if stop(); <-ended != nil {
			t.Error("a part failed")
		}
	})
}

// Each listener that a browser reaches rejects requests that a page of another site sends, or is listed as a listener
// that carries the fields of others.
func TestListeners_HaveTheirGuard(t *testing.T) {
	t.Parallel()
	for _, program := range []any{new(config.Serve), new(config.Sidecar), new(config.Collector),
		new(config.Aggregator)} {
		p, err := config.Build(program, "hotparam", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Kong.Model.Flags {
			if _, listed := guards[f.Name]; strings.HasSuffix(f.Name, ".listen") && !listed {
				t.Errorf("--%s has no guard in this list", f.Name)
			}
		}
	}
	paths := map[string]string{"admin.listen": "/v1/overrides", "decide.listen": "/v1/decide",
		"edge.listen": "/v1/edge/counts", "check.listen": "/check", "mirror.listen": "/", "proxy.listen": "/"}
	tested := everyListener(t)
	for name, guard := range guards {
		if (guard.page != 0) != (tested[name] != nil) {
			t.Errorf("--%s is not tested, or speaks no HTTP", name)
		}
	}
	for name, s := range tested {
		for what, want := range map[string]int{"page": guards[name].page, "host": guards[name].host} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr()+paths[name], nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Forwarded-Method", "GET")
			r.Header.Set("X-Forwarded-Uri", "/")
			r.Header.Set("X-Forwarded-Host", "www.example.com")
			r.Header.Set("X-Forwarded-For", "192.0.2.1")
			if what == "page" {
				r.Header.Set("Origin", "http://evil.example")
				r.Header.Set("Sec-Fetch-Site", "cross-site")
			} else {
				r.Host = "evil.example"
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _ = res.Body.Close(); res.StatusCode != want {
				t.Errorf("--%s, %s of another site: %d, want %d", name, what, res.StatusCode, want)
			}
		}
	}
}
