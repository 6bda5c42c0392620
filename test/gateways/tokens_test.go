package gateways

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// A gateway whose token the sidecar does not have gets no verdict, and treats every request by the policy for no answer
// that its file states, also after more wrong tokens than a guesser may send. The sidecar counts the gateway as
// refused.
func TestGateways_WithWrongTokenGetNoVerdict(t *testing.T) {
	t.Parallel()
	const other = "0123456789abcdef-of-the-sidecar"
	for name, c := range map[string]struct {
		listener string
		closed   int // status of a file that fails closed, or 0 if there is no such form
	}{
		"nginx": {"check", 500}, "nginx that decides itself": {"check", 0}, "ingress-nginx": {"check", 500},
		"Caddy": {"check", 503}, "Traefik": {"check", 503}, "the plugin for Kong": {"check", 0},
		"Envoy, external authorization":         {"envoy", 403},
		"Envoy, external authorization by HTTP": {"check", 403},
		"Envoy, rate limit service":             {"envoy", 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := withPlugins()[name]
			args := slices.Clone(k.limiter)
			if at := slices.Index(args, "--check.token"); at >= 0 {
				args = slices.Delete(args, at, at+2)
			}
			args = append(args, "--"+c.listener+".token", other)
			if slices.Contains(args, "--edge.listen") {
				args = append(args, "--edge.token", other)
			}
			a, l := startApp(t), startLimiter(t, args...)
			p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
			g := startGateway(t, k.command(t, p), "127.0.0.1:"+p.front, "/topic?id=cold", 200)
			for i := range 15 {
				if got := g.get(blocked); got.status != 200 {
					t.Fatalf("request %d: %d %s", i, got.status, got.body)
				}
			}
			if c.closed != 0 {
				p.front = strconv.Itoa(freeport.Port(t))
				startGateway(t, k.command(t, p, k.closed...), "127.0.0.1:"+p.front, "/topic?id=cold", c.closed)
			}
			res, err := l.admin.Get("http://localhost/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			metrics, err := io.ReadAll(res.Body)
			if err != nil || !strings.Contains(string(metrics), `hotparam_gateways_refused{listener="`+c.listener+`"} 1`) {
				t.Errorf("no gateway counts as refused: %v", err)
			}
		})
	}
}
