package rediscontrol

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/lua"
)

// heals is how long a follower may take to find a missed change on a busy machine: some polls.
const heals = 10 * pollEvery

func TestMain(m *testing.M) { redistest.Main(m) }

// server is a Redis server or cluster under test, and a namespace of the test.
type server struct {
	addrs     []string
	raw       redis.UniversalClient
	namespace string
}

func (s server) open(t *testing.T) *Feed {
	t.Helper()
	return openWith(t, redisclient.Config{Addrs: s.addrs, Namespace: s.namespace})
}

// immortal lists the keys of the test's namespace without an expiry.
func (s server) immortal(t *testing.T) []string {
	t.Helper()
	return redistest.KeysWithoutTTL(t, s.raw, redisclient.NewKeys(s.namespace).Prefix())
}

// TestOnServerAndCluster runs the tests that must have the same result on a server and on a cluster. Every test has a
// namespace of its own.
func TestOnServerAndCluster(t *testing.T) {
	suite := map[string]func(*testing.T, server){
		"published-set-is-read-back":           testPublishedSetIsReadBack,
		"old-process-is-fenced":                testOldProcessIsFenced,
		"late-calls-undo-nothing":              testLateCallsUndoNothing,
		"set-outlives-its-publisher":           testSetOutlivesItsPublisher,
		"new-process-keeps-what-it-finds":      testNewProcessKeepsWhatItCannotJudge,
		"follower-gets-what-is-there":          testFollowerGetsWhatIsThereAndWhatComes,
		"large-sets-travel-as-changes":         testLargeSetsTravelAsChanges,
		"what-arrived-is-read-by-its-sender":   testWhatArrivedIsReadByItsSender,
		"lost-changes-heal":                    testLostChangesHeal,
		"lost-notices-heal":                    testLostNoticesHeal,
		"broken-set-does-not-stop-the-others":  testBrokenSetDoesNotStopTheOthers,
		"overrides-are-kept-with-their-author": testOverridesAreKeptWithTheirAuthor,
		"broken-overrides":                     testBrokenOverrides,
		"limiters-agree-on-secrets":            testLimitersAgreeOnSecrets,
		"base-latencies-are-kept":              testBaseLatenciesAreKept,
		"two-followers-see-a-change":           testTwoFollowersSeeAChange,
		"lost-override-notices-heal":           testLostOverrideNoticesHeal,
		"many-writers-of-one-override":         testManyWritersOfOneOverride,
		"lost-overrides-are-written-back":      testLostOverridesAreWrittenBack,
		"reports":                              testReports,
		"commands":                             testCommands,
		"rules-are-read-and-followed":          testRulesAreReadAndFollowed,
		"two-pushers-at-once":                  testTwoPushersAtOnce,
		"rules-of-others":                      testRulesOfOthers,
	}
	run := func(t *testing.T, addrs []string, raw redis.UniversalClient) {
		for name, test := range suite {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, server{addrs, raw, name})
			})
		}
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		run(t, []string{s.Addr()}, s.Client())
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		raw := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Protocol: 2, DisableIdentity: true})
		t.Cleanup(func() { _ = raw.Close() })
		run(t, c.Addrs(), raw)
	})
}

// open returns a feed that ends when the test ends.
func open(t testing.TB, addrs ...string) *Feed {
	t.Helper()
	return openWith(t, redisclient.Config{Addrs: addrs, Namespace: "test"})
}

func openWith(t testing.TB, cfg redisclient.Config) *Feed {
	t.Helper()
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second) // machines are busy
	c, err := redisclient.Open(cfg)
	return New(redistest.MustOpen(t, c, err))
}

// delivery is one call of a hot set follower.
type delivery struct {
	publisher string
	set       report.HotSet
}

// follow runs Follow until the test ends, or until stop is called.
func follow(t *testing.T, c *Feed) (deliveries <-chan delivery, stop func()) {
	t.Helper()
	out := make(chan delivery, 10_000)
	return out, redistest.Running(t, func(ctx context.Context) error {
		return c.Follow(ctx, func(p string, set report.HotSet) { out <- delivery{p, set} })
	})
}

// hot returns a set of n keys, judged at time at and hot for a minute.
func hot(at time.Time, n int) report.HotSet {
	set := report.HotSet{At: at}
	for i := range n {
		set.Keys = append(set.Keys, hottype.HotKey{
			Key: hottype.Key(fmt.Sprintf("topic?id=%d", i)), Rule: "topic",
			Rate: 200 + float64(i)/5, PeakRate: 300 + float64(i)/5,
			Since: at.Add(-time.Minute), Until: at.Add(time.Minute),
		})
	}
	return set
}

// varied returns a set that compresses as a real one does: ids without a pattern and times of their own.
func varied(at time.Time, n int) report.HotSet {
	r := rand.New(rand.NewPCG(1, 2))
	set := hot(at, n)
	for i := range set.Keys {
		h := &set.Keys[i]
		h.Key = hottype.Key(fmt.Sprintf("article?id=%x&lang=en", r.Uint64()))
		h.Rate = float64(1000+r.IntN(20_000)) / 5
		h.PeakRate = h.Rate + float64(r.IntN(5000))/5
		h.Lower, h.Upper = h.Rate, h.Rate
		h.Since = at.Add(-rand.N(time.Hour)).Truncate(time.Microsecond)
		h.Until = at.Add(12 * time.Second)
	}
	return set
}

// now returns a time as Redis keeps it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// setClock makes the scripts of a feed use a clock that is set.
func setClock(f *Feed, now time.Time) *redistest.Clock {
	k := redistest.NewClock(now, lua.ClaimHot(), lua.PublishHot(), lua.WriteOverride(), lua.RestoreOverrides(),
		lua.WriteReport(), lua.WriteCommand())
	f.rdb.AddHook(k)
	return k
}
