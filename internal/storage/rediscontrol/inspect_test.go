package rediscontrol

import (
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func TestInspect_ReportsTheServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru", "--save", "")
	client, err := redisclient.Open(redisclient.Config{Addrs: []string{srv.Addr()}, Namespace: "test",
		Timeout: redistest.Patience})
	c := New(redistest.MustOpen(t, client, err))
	set := report.HotSet{At: now(),
		Keys: []hottype.HotKey{{Key: "topic?id=42", Rule: "topic", Until: now().Add(time.Minute)}}}
	if err := c.Publisher("a").Publish(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Overrides().Put(t.Context(), rules.Override{Key: "topic?id=42",
		Action: rules.ActionBlock}); err != nil {
		t.Fatal(err)
	}
	in := client.Inspect(t.Context())
	if in.Err != "" || len(in.Rights.Limiter)+len(in.Rights.Aggregator)+len(in.Missing) > 0 || len(in.Unknown) > 0 {
		t.Fatalf("inspection %+v", in)
	}
	if !strings.Contains("Redis "+in.Version, srv.Is()) || in.Role != "master" || in.MaxMemory != 64<<20 ||
		in.Policy != "allkeys-lru" || in.AppendOnly || in.SavesToRDB || in.Cluster {
		t.Errorf("inspection %+v", in)
	}
	if in.Overrides != 1 || in.Median <= 0 || in.Worst < in.Median || in.ClockAhead.Abs() > time.Second {
		t.Errorf("inspection %+v", in)
	}
	if len(in.Publishers) != 1 || in.Publishers[0] != (redisclient.PublisherSeen{Name: "a", Live: true}) {
		t.Errorf("publishers %+v", in.Publishers)
	}
}
