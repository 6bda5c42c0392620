package redisclient

import (
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func TestInspect_ReportsACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for value, wholeOnly := range map[string]bool{"yes": true, "no": false} {
		for _, addr := range cluster.Addrs() {
			if err := openWith(t, Config{Addrs: []string{addr}, Namespace: "news"}).
				rdb.ConfigSet(t.Context(), "cluster-require-full-coverage", value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		in := openWith(t, Config{Addrs: cluster.Addrs(), Namespace: "news"}).Inspect(t.Context())
		if in.Err != "" || !in.Cluster || in.ClusterState != "ok" || in.WholeOnly != wholeOnly || len(in.Unknown) > 0 {
			t.Errorf("%s: inspection %+v", value, in)
		}
	}
}

func TestInspect_ReportsAReplicaAndMissingRights(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	in := open(t, replica.Addr()).Inspect(t.Context())
	if in.Role != "slave" || !in.ReadOnly || len(in.Rights.Limiter) > 0 {
		t.Errorf("inspection of a replica %+v", in)
	}
	const poor = "ACL SETUSER poor on >secret ~hp:* resetchannels &hp:* +@all -eval -publish -config -info"
	if err := master.Client().Do(t.Context(), master.Known(poor)...).Err(); err != nil {
		t.Fatal(err)
	}
	in = openWith(t, Config{Addrs: []string{master.Addr()}, Namespace: "news", Username: "poor", Password: "secret"}).
		Inspect(t.Context())
	if got := rights(in.Rights.Limiter) + rights(in.Rights.Aggregator); got != "+eval +publish " {
		t.Errorf("rights that are lacking: %s", got)
	}
	if in.Unknown["INFO"] == "" || in.Unknown["CONFIG GET"] == "" {
		t.Errorf("unknown %v", in.Unknown)
	}
}

func TestInspect_ReportsWhyNothingAnswers(t *testing.T) {
	t.Parallel()
	if in := open(t, "127.0.0.1:1").Inspect(t.Context()); !strings.Contains(in.Err, "127.0.0.1:1") {
		t.Errorf("inspection %+v", in)
	}
}

// A machine that is busy for a moment does not count as a failure.
func TestInspect_RetriesACallWithoutReply(t *testing.T) {
	t.Parallel()
	front := redistest.StartFaultProxy(t, redistest.Start(t).Addr())
	front.Set(redistest.At(1, redistest.Silent))
	in := openWith(t, Config{Addrs: []string{front.Addr()}, Namespace: "news", Timeout: 3 * time.Second}).
		Inspect(t.Context())
	if in.Err != "" || len(in.Rights.Limiter) > 0 {
		t.Errorf("inspection %+v", in)
	}
}

func TestInspect_ReportsSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	look := func() Inspection {
		return openWith(t, Config{Addrs: s.Addrs(), SentinelMaster: redistest.MasterName, Namespace: "news",
			Timeout: redistest.Patience}).Inspect(t.Context())
	}
	if in := look(); in.Err != "" || in.Sentinels != 3 || len(in.Silent) > 0 || in.Role != "master" {
		t.Errorf("inspection %+v", in)
	}
	s.Nodes[0].Kill()
	if in := look(); in.Err != "" || len(in.Silent) != 1 || in.Silent[s.Nodes[0].Addr()] == "" {
		t.Errorf("inspection with a Sentinel killed %+v", in)
	}
}
