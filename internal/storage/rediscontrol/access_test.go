package rediscontrol

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	text := redistest.Documentation(t)
	k := redisclient.NewKeys("news")
	for _, name := range []string{
		k.HotVersion(), k.HotIndex(), k.HotSet("<publisher>"), k.HotLog("<publisher>"), k.HotEpoch("<publisher>"),
		k.HotReceived("<publisher>"), k.Aggregators(),
		k.HotNotice(),
		k.Overrides(), k.OverrideUntil(), k.OverrideVersion(), k.OverrideAudit(), k.OverrideNotice(),
		k.OverrideChanges(), k.OverrideChangeIndex(), k.OverrideAuthors(), k.OverrideRemoved(), k.OverrideAuditState(),
		k.OverrideLog(),
		k.Report("<instance>"), k.ReportIndex(), k.Commands(), k.CommandNotice(), k.Bounds(), k.BoundsOwner(),
		k.BaseLatency(),
		strings.TrimSuffix(k.PassSecret(0), "0") + "<day>",
	} {
		if !strings.Contains(text, "`"+name) {
			t.Errorf("docs/redis.md does not tell of %s", name)
		}
	}
}

func TestACLs_SufficeOnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	redistest.Grant(t, c.Nodes, "+cluster|slots", "+cluster|shards", "+command")
	as := func(user string) *Feed {
		return openWith(t, redisclient.Config{Addrs: c.Addrs(), Username: user, Password: "pw", Namespace: "news"})
	}
	aggregator, limiter := as("hotparam-aggregator"), as("hotparam-limiter")
	deliveries, _ := follow(t, limiter)
	redistest.Eventually(t, "subscription", func() bool { return limiter.hot.subscriptions.Load() > 0 })
	publish(t, aggregator.Publisher("agg"), hot(now(), 1))
	redistest.Next(t, deliveries, "hot set")
	if err := limiter.WriteReport(context.Background(), makeReport("a", 1)); err != nil {
		t.Error(err)
	}
	if got, err := aggregator.ReadReports(context.Background()); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// The documented ACL lines are enough for their users, and the limiter's do not let it change overrides or publish.
func TestACLs_SufficeAsDocumented(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	redistest.Grant(t, []*redistest.Server{s})
	as := func(user string) *Feed {
		return openWith(t, redisclient.Config{Addrs: []string{"redis://" + user + ":pw@" + s.Addr()}, Namespace: "news"})
	}
	aggregator, limiter := as("hotparam-aggregator"), as("hotparam-limiter")
	ctx := context.Background()
	deliveries, _ := follow(t, limiter)
	changes := followOverrides(t, limiter)
	redistest.Next(t, changes, "the empty list")
	publish(t, aggregator.Publisher("agg"), hot(now(), 1))
	redistest.Next(t, deliveries, "hot set")
	put(t, aggregator.Overrides(), block("a", "topic?id=1", "ann"))
	redistest.Next(t, changes, "override")
	redistest.Eventually(t, "subscriptions", func() bool {
		return limiter.hot.subscriptions.Load() > 0 && limiter.overrides.subscriptions.Load() > 0
	})
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("ping", limiter.rdb.Ping(ctx).Err())
	err := limiter.WriteReport(ctx, makeReport("a", 1))
	check("report", err)
	_, err = aggregator.ReadReports(ctx)
	check("reports", err)
	check("delete", aggregator.Overrides().Delete(ctx, "a", "ann"))
	commands := followCommands(t, limiter)
	check("command", aggregator.SendCommand(ctx, report.Command{Action: report.CommandReset, Key: "k"}))
	redistest.Next(t, commands, "command")
	_, err = limiter.AgreeOnSecrets(ctx, []visitorpass.DaySecret{secretOf(visitorpass.Day(now()), 1)})
	check("secret", err)
	_, err = aggregator.Overrides().Audit(ctx, 1)
	check("audit", err)
	rejected := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s as the limiter: %v", what, err)
		}
	}
	rejected("another namespace", limiter.rdb.Get(ctx, "hp:{other}:hot:version").Err())
	rejected("everything", limiter.rdb.FlushAll(ctx).Err())
	if s.Before(7, 0) {
		return // it has no keys that one may only read
	}
	_, err = limiter.Overrides().Put(ctx, block("b", "topic?id=1", "mallory"))
	rejected("put", err)
	rejected("command", limiter.SendCommand(ctx, report.Command{Action: report.CommandReset, Key: "k"}))
	rejected("publish", limiter.Publisher("x").Publish(ctx, hot(now(), 1)))
}

func TestFeed_WorksThroughTLS(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	until := time.Now().Add(time.Hour)
	_, addr := redistest.StartTLS(t, a, a.Issue(until, "127.0.0.1"))
	client := a.Issue(until, "client")
	c := openWith(t, redisclient.Config{
		Addrs: []string{addr}, Namespace: "test", TLSFiles: tlsfiles.Files{CA: a.CA, Cert: client.Cert,
			Key: client.Key},
	})
	deliveries, _ := follow(t, c)
	publish(t, c.Publisher("agg"), hot(now(), 2000))
	redistest.Next(t, deliveries, "set through TLS")
}
