package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// A replay applies the windows of each client for the requests of a rule, of classes too, and finds no hot key under a
// rule without hot, whatever its rate.
func TestRun_AppliesWindowsOfARule(t *testing.T) {
	t.Parallel()
	const config = `
rules:
  - {name: login, match: {path: /login, methods: [POST]}, per_client: {fixed: {limit: 10, window: 1m}}}
  - {name: "*", params: [], hot: {rate: 5, window: 1s}}
classes: [{name: office, match: {networks: [10.0.1.0/24]}, per_client: {sliding: {limit: 50, window: 1m}}}]
`
	var log strings.Builder
	for i := range 600 {
		for _, client := range []string{"10.0.0.1", "10.0.1.1"} {
			fmt.Fprintf(&log, "%d\t%s\tPOST\t/login\n", 1_700_000_040+i/10, client) // the second begins a minute
		}
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: parse(t, config)}, text("a.tsv", log.String()))
	if err != nil {
		t.Fatal(err)
	}
	if n := rep.Denied; n[hottype.ReasonClientFixed] != 590 || n[hottype.ReasonClientSliding] != 550 ||
		n.Total() != 1140 {
		t.Errorf("denied %+v", n)
	}
	if len(rep.Hot) > 0 {
		t.Errorf("hot %+v", rep.Hot)
	}
}
