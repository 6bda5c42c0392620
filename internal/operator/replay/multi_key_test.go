package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// A value that only comes beside other values of its parameter is counted in each request that names it, becomes hot
// and is limited.
func TestRun_FindsValueThatComesBesideOthers(t *testing.T) {
	t.Parallel()
	const config = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10, window: 1s, cooldown: 10s}, limit: {rate: 1, burst: 1}}
`
	var log strings.Builder
	for i := range 40 {
		fmt.Fprintf(&log, "%d\t10.0.0.%d\tGET\t/topic?id=%d&id=star\n", 1700000000+i/20, i, i)
	}
	rep, err := replay.Run(context.Background(), replay.Config{Rules: parse(t, config)}, text("a.tsv", log.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Hot) != 1 || rep.Hot[0].Key != "topic?id=star" || rep.Keys[0].Requests != 40 || rep.Requests != 40 ||
		rep.Denied[hottype.ReasonHot] < 15 {
		t.Errorf("hot %+v, first key %+v, %d requests, denied %+v", rep.Hot, rep.Keys[0], rep.Requests, rep.Denied)
	}
}
