package kafka_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

func TestInspect_ReadsATopic(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(3, topic))
	in, err := kafka.Inspect(t.Context(), config(c.ListenAddrs()))
	if err != nil || in.Err != "" || in.Missing {
		t.Fatalf("inspection %+v, %v", in, err)
	}
	if in.Found != 1 || in.Partitions != 3 || in.Replicas < 1 || in.Leaderless != 0 || in.Members != 0 {
		t.Errorf("inspection %+v", in)
	}
	if in.Settings["cleanup.policy"] != "delete" {
		t.Errorf("settings %v, unknown %v", in.Settings, in.Unknown)
	}
}

func TestInspect_ReportsWhatIsMissing(t *testing.T) {
	t.Parallel()
	in, err := kafka.Inspect(t.Context(), config(cluster(t).ListenAddrs()))
	if err != nil || !in.Missing {
		t.Errorf("inspection %+v, %v; want a missing topic", in, err)
	}
	begin := time.Now()
	in, err = kafka.Inspect(t.Context(), config(address(freeport.Port(t))))
	if err != nil || !strings.Contains(in.Err, "cannot reach brokers") || time.Since(begin) > 10*time.Second {
		t.Errorf("inspection %+v, %v after %v", in, err, time.Since(begin))
	}
	if _, err = kafka.Inspect(t.Context(), kafka.Config{}); err == nil {
		t.Error("no brokers are no error")
	}
}
