package redislimits

import (
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Charges, refunds and counts are the same on one server and on a cluster, where the charges of a request are in
// several shards.
func TestLimiterOnCluster_MatchesOneServer(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openWith(t, redisclient.Config{Addrs: addrs, Namespace: "test", Timeout: redistest.Patience})
			l := c
			var charges []limit.Charge
			for n, spec := range everyAlgorithm() {
				charges = append(charges,
					limit.Charge{Subject: limit.Subject{Space: "hot", Name: fmt.Sprint("topic?id=", n)}, Spec: spec,
						Cost: 1})
			}
			before, results := make([]int64, len(charges)), make([]limit.Result, len(charges))
			redistest.Eventually(t, "a first answer", func() bool { return c.rdb.Ping(t.Context()).Err() == nil })
			for i := range charges {
				before[i] = left(t, c, charges[i])
			}
			ok, at, err := l.TakeAt(t.Context(), time.Time{}, charges, results)
			if err != nil || !ok {
				t.Fatalf("%v, %v: %+v", ok, err, results)
			}
			if err := l.RefundAt(t.Context(), at, charges, results); err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				if !r.Allowed || r.Remaining != before[i] || left(t, c, charges[i]) != before[i] {
					t.Errorf("%+v: %+v after the refund, %d before", charges[i].Spec, r, before[i])
				}
			}
			if err := l.RefundAt(t.Context(), at[1:], charges, results); err == nil {
				t.Error("a time is missing, and nothing is said")
			}
			if s := l.Stats(); s.Decisions == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
