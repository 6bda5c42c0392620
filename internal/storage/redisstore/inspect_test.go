package redisstore

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

func TestInspectACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for value, wholeOnly := range map[string]bool{"yes": true, "no": false} {
		for _, addr := range cluster.Addrs() {
			if err := openWith(t, Config{Addrs: []string{addr}, Namespace: "news"}).rdb.ConfigSet(t.Context(), "cluster-require-full-coverage", value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		in := openWith(t, Config{Addrs: cluster.Addrs(), Namespace: "news"}).Inspect(t.Context())
		if in.Err != "" || !in.Cluster || in.ClusterState != "ok" || in.WholeOnly != wholeOnly || len(in.Unknown) > 0 {
			t.Errorf("%s: inspection %+v", value, in)
		}
	}
}

func TestInspectSeesAReplicaAndWhatAnACLRefuses(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	in := open(t, replica.Addr()).Inspect(t.Context())
	if in.Role != "slave" || in.Refused["SET"] == "" {
		t.Errorf("inspection of a replica %+v", in)
	}
	const poor = "ACL SETUSER poor on >secret ~hp:* resetchannels &hp:* +@all -eval -publish -config -info"
	if err := master.Client().Do(t.Context(), master.Known(poor)...).Err(); err != nil {
		t.Fatal(err)
	}
	in = openWith(t, Config{Addrs: []string{master.Addr()}, Namespace: "news", Username: "poor", Password: "secret"}).Inspect(t.Context())
	if in.Refused["EVAL"] == "" || in.Refused["PUBLISH"] == "" || len(in.Refused) != 2 {
		t.Errorf("refused %v", in.Refused)
	}
	if in.Unknown["INFO"] == "" || in.Unknown["CONFIG GET"] == "" {
		t.Errorf("unknown %v", in.Unknown)
	}
}

func TestInspectSaysWhyNothingAnswers(t *testing.T) {
	t.Parallel()
	if in := open(t, "127.0.0.1:1").Inspect(t.Context()); !strings.Contains(in.Err, "127.0.0.1:1") {
		t.Errorf("inspection %+v", in)
	}
}
