package edge_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/edge"
)

// nowhere takes counts.
type nowhere struct{}

func (nowhere) Send(context.Context, []hottype.Count) error { return nil }

// A post of 3,000 requests, each for a key of its own; an op is one request.
func BenchmarkCount(b *testing.B) {
	set, err := rules.Parse("rules.yaml", []byte(feedRules))
	if err != nil {
		b.Fatal(err)
	}
	counts := tally.New(tally.Config{Sink: nowhere{}})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go func() { _ = counts.Run(ctx) }()
	hot := &hotset.Replica{NoInputTTL: time.Second}
	feed := edge.NewFeed(edge.Config{Gate: gate.New(gate.Config{Rules: set, Hot: hot, Counter: counts}), Hot: hot})
	const size = 3000
	posts := make([][]byte, 20)
	for p := range posts {
		for i := range size {
			posts[p] = fmt.Appendf(posts[p], "+7f0000%02x topic?id=%d\n", i%4, p*size+i)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%size == 0 {
			feed.Count(b.Context(), posts[i/size%len(posts)])
		}
	}
}
