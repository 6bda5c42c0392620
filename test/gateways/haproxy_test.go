package gateways

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// A request that does not fit into a frame to the agent is refused. A request that passes without a verdict is a line
// of HAProxy's log with the reason, 1 for no answer in time, and the number of such requests.
func TestHAProxy_LogsUnjudgedRequests(t *testing.T) {
	t.Parallel()
	k := kinds["HAProxy with SPOE"]
	a, l := startApp(t), startLimiter(t, k.limiter...)
	p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), false, l.edge}
	g := startGateway(t, haproxySPOE(t, p, "gt 16000", "gt 9000"), "127.0.0.1:"+p.front, blocked, 429)
	if got := g.get("/topic?id=cold", "X-Pad", strings.Repeat("p", 8700)); got.status != 200 {
		t.Errorf("a request that fits: %d", got.status)
	}
	_, before := a.last()
	for _, id := range []string{"blocked", "cold"} {
		if got := g.get("/topic?id="+id, "X-Pad", strings.Repeat("p", 9000)); got.status != 431 {
			t.Errorf("%s in a request that does not fit: %d", id, got.status)
		}
		pad := strings.Repeat("p", 4600)
		if got := g.get("/topic?id="+id+"&x="+pad, "X-Pad", pad); got.status != 431 {
			t.Errorf("%s in a request that does not fit: %d", id, got.status)
		}
	}
	if _, after := a.last(); after != before {
		t.Errorf("%d requests that do not fit reached the application", after-before)
	}
	l.takes(3 * time.Second)
	for range 2 {
		if got := g.get(blocked); got.status != 200 {
			t.Errorf("without an answer: %d", got.status)
		}
	}
	program.Await(t, time.Minute, "two lines with st=1", func() (ok bool) {
		found := 0
		for line := range strings.Lines(g.Said()) {
			if strings.HasPrefix(line, "SPOE: [hotparam] <GROUP:") && strings.Contains(line, " st=1 ") {
				found++
			}
		}
		return found >= 2
	})
}
