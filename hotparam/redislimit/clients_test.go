package redislimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/redislimit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A caller's client by TLS is used unchanged.
func TestLimiter_UsesATLSClient(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	_, addr := redistest.StartTLS(t, a, a.Issue(time.Now().Add(time.Hour), "127.0.0.1"))
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, TLSConfig: a.Client()})
	defer rdb.Close()
	whatIsTakenIsGone(t, rdb)
}

// A caller's Sentinel client finds the master, and the next master after a failover.
func TestLimiter_FollowsAFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.MasterName, SentinelAddrs: s.Addrs(), ContextTimeoutEnabled: true,
	})
	defer rdb.Close()
	whatIsTakenIsGone(t, rdb)
	s.Master.Kill()
	s.AwaitSwitch(t)
	limits := redislimit.New(rdb)
	redistest.Eventually(t, "limits on the new master", func() bool {
		r, err := limits.Allow(t.Context(), "after the failover", slow(1_000_000))
		return err == nil && r.Allowed
	})
}

// A nil client, also behind a type, is a programmer's mistake, which New reports.
func TestNew_PanicsWithoutAClient(t *testing.T) {
	t.Parallel()
	for name, rdb := range map[string]redis.UniversalClient{"nil": nil, "Client": (*redis.Client)(nil),
		"ClusterClient": (*redis.ClusterClient)(nil), "Ring": (*redis.Ring)(nil)} {
		func() {
			defer func() {
				said := fmt.Sprint(recover())
				if !strings.HasPrefix(said, "redislimit: New: redisclient: ") || strings.Contains(said, "nil pointer") {
					t.Errorf("%s: New panics with %q", name, said)
				}
			}()
			redislimit.New(rdb)
		}()
	}
}
