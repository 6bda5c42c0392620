package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/operator/replay"
)

// One client asks for id 1 alone, thirty ask for id 2 just as often. Both are
// over the threshold, and one of them is viral.
func TestReplayTellsALoopFromManyClients(t *testing.T) {
	t.Parallel()
	config := `
rules:
  - name: t
    match: {path: "/t"}
    params: [id]
    hot: {rate: 10, window: 1s, cooldown: 2s, min_clients: 5}
    limit: {algorithm: token_bucket, rate: 1, burst: 1}
`
	var log strings.Builder
	for i := range 90 {
		fmt.Fprintf(&log, "%d\t192.0.2.1\tGET\t/t?id=1\n", 1000000000+i/30)
		fmt.Fprintf(&log, "%d\t10.0.0.%d\tGET\t/t?id=2\n", 1000000000+i/30, i%30)
	}
	fmt.Fprint(&log, "1000000050\tc\tGET\t/t?id=3\n")
	rep, err := replay.Run(context.Background(), replay.Config{Rules: parse(t, config)}, text("log", log.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Hot) != 1 || rep.Hot[0].Key != "t?id=2" || rep.Hot[0].Clients < 8 || rep.Hot[0].ClientShare > 0.2 {
		t.Errorf("hot %+v", rep.Hot)
	}
	if len(rep.Loops) != 1 || rep.Loops[0].Key != "t?id=1" || rep.Loops[0].Client != "192.0.2.1" || rep.Loops[0].ClientShare != 1 ||
		rep.Loops[0].From != 1000000000 || rep.Loops[0].Until < 1000000004 || rep.Loops[0].Until > 1000000006 {
		t.Errorf("loops %+v", rep.Loops)
	}
	for _, k := range rep.Keys {
		if denied := k.Denied > 0; denied != (k.Key == "t?id=2") {
			t.Errorf("%+v", k)
		}
	}
	if len(rep.HotSeconds[1000000001]) != 2 {
		t.Errorf("before min_clients both are over the threshold: %v", rep.HotSeconds)
	}
	var page bytes.Buffer
	if err := replay.Write(&page, rep, replay.Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if text := page.String(); !strings.Contains(text, "Loops: one or a few clients") {
		t.Error(text)
	}
}
