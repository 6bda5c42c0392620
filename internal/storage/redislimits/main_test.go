package redislimits

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/lua"
)

func TestMain(m *testing.M) {
	if !redistest.RequireAll() && os.Getenv(stepsEnv) == "" {
		_ = os.Setenv(stepsEnv, "1000") // does not fail for such a name
	}
	redistest.Main(m)
}

// stepsEnv sets the number of steps of each law of the limits. A short run takes a tenth of the usual number.
const stepsEnv = "HOTPARAM_LIMIT_STEPS"

// open returns a client that is closed when the test ends.
func open(t testing.TB, addrs ...string) *Limiter {
	t.Helper()
	return openWith(t, redisclient.Config{Addrs: addrs, Namespace: "test"})
}

// serverAndCluster returns the addresses of a server and of a cluster, started for the test; in a short run there is no
// cluster.
func serverAndCluster(t testing.TB) map[string][]string {
	all := map[string][]string{"server": {redistest.Start(t).Addr()}}
	if redistest.RequireAll() {
		all["cluster"] = redistest.StartCluster(t).Addrs()
	}
	return all
}

func openWith(t testing.TB, cfg redisclient.Config) *Limiter {
	t.Helper()
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second) // machines are busy
	c, err := redisclient.Open(cfg)
	return New(redistest.MustOpen(t, c, err))
}

// now returns the time with the precision of Redis.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// newClock returns a clock for the scripts of limits.
func newClock(now time.Time) *redistest.Clock {
	return redistest.NewClock(now, lua.Decide(), lua.DecideMany(), lua.Refund(), lua.Exchange(), lua.InFlight(),
		lua.CLThrottle())
}

// setClock has the scripts of a client decide by a clock that the test sets.
func setClock(rdb redis.UniversalClient, now time.Time) *redistest.Clock {
	k := newClock(now)
	rdb.AddHook(k)
	return k
}

// singly calls the script that knows every algorithm once for each decision, also if a batch is open.
type singly struct{ *shardLimiter }

func (s singly) Take(ctx context.Context, _ time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	if err := limit.CheckCharges(charges, results); err != nil || len(charges) == 0 {
		return err == nil, err
	}
	r := new(request)
	if err := r.set(s.keys, charges); err != nil {
		return false, err
	}
	ok, _, err := s.decideOne(ctx, r, results)
	return ok, err
}

// ways are the ways of a decision to Redis.
var ways = map[string]func(*shardLimiter) limit.Store{
	"alone":    func(l *shardLimiter) limit.Store { return singly{l} },
	"together": func(l *shardLimiter) limit.Store { return l },
}

// hotCharge charges the bucket of a hot key, which regains nothing during a test.
func hotCharge(burst, cost int64) limit.Charge {
	return limit.Charge{
		Subject: limit.Subject{Space: "hot", Name: "topic?id=42"}, Cost: cost,
		Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: 10 * time.Minute, Burst: burst},
	}
}

// left returns the remaining amount of the limit of a charge.
func left(t testing.TB, l *Limiter, c limit.Charge) int64 {
	t.Helper()
	c.Cost = 0
	results := make([]limit.Result, 1)
	if _, err := l.Take(t.Context(), time.Time{}, []limit.Charge{c}, results); err != nil {
		t.Fatal(err)
	}
	return results[0].Remaining
}
