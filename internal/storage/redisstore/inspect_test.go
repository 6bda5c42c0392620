package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

func TestInspectAServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru", "--save", "")
	c := open(t, srv.Addr())
	set := hottype.HotSet{At: now(), Keys: []hottype.Hot{{Key: "topic?id=42", Rule: "topic", Until: now().Add(time.Minute)}}}
	if err := c.Publisher("a").Publish(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Overrides().Put(t.Context(), rules.Override{Key: "topic?id=42", Action: rules.ActionBlock}); err != nil {
		t.Fatal(err)
	}
	in := c.Inspect(t.Context())
	if in.Err != "" || len(in.Refused) > 0 || len(in.Unknown) > 0 {
		t.Fatalf("inspection %+v", in)
	}
	if !strings.Contains("Redis "+in.Version, srv.Is()) || in.Role != "master" || in.MaxMemory != 64<<20 || in.Policy != "allkeys-lru" || in.AppendOnly || in.SavesToRDB || in.Cluster {
		t.Errorf("inspection %+v", in)
	}
	if in.Overrides != 1 || in.Median <= 0 || in.Worst < in.Median || in.ClockAhead.Abs() > time.Second {
		t.Errorf("inspection %+v", in)
	}
	if len(in.Publishers) != 1 || in.Publishers[0] != (PublisherSeen{Name: "a", Live: true}) {
		t.Errorf("publishers %+v", in.Publishers)
	}
}

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
	if err := master.Client().Do(t.Context(), asKnownTo(master, poor)...).Err(); err != nil {
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
