package rediscontrol

import (
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/lua"
)

// mortal is a server on which no key may live for ever after any call.
type mortal struct {
	*testing.T
	server
	c *Feed
}

func (m mortal) after(what string) {
	m.Helper()
	if keys := m.immortal(m.T); keys != nil {
		m.Fatalf("after %s these keys have no expiry: %v", what, keys)
	}
}

// Law U9 on a real server, for all calls of the package: after each call every key has an expiry. At the end the server
// has run every script of the package.
func TestFeed_LeavesOnlyKeysThatExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	at := server{[]string{s.Addr()}, s.Client(), "test"}
	m := mortal{t, at,
		openWith(t, redisclient.Config{Addrs: at.addrs, Namespace: at.namespace, Timeout: redistest.Patience})}
	m.overrides()
	m.lostOverrides()
	m.sets()
	redistest.CheckScriptsRan(t, s, map[string]string{
		"ClaimHot": lua.ClaimHot(), "PublishHot": lua.PublishHot(), "WriteOverride": lua.WriteOverride(),
		"RestoreOverrides": lua.RestoreOverrides(), "WriteReport": lua.WriteReport(),
		"WriteCommand":  lua.WriteCommand(),
		"PublishBounds": lua.PublishBounds(), "WriteRules": lua.WriteRules(),
	}, "Decide", "DecideMany", "Refund", "Exchange", "CLThrottle", "InFlight")
}

// overrides are put, changed and deleted, and reports are written.
func (m mortal) overrides() {
	m.Helper()
	ctx := m.Context()
	check := func(what string, err error) {
		m.Helper()
		if err != nil {
			m.Fatalf("%s: %v", what, err)
		}
		m.after(what)
	}
	for range 2 {
		err := m.c.WriteReport(ctx, makeReport("host:1", 1))
		check("WriteReport", err)
		_, err = m.c.PublishBounds(ctx, "token", nil)
		check("PublishBounds", err)
	}

	_, err := m.c.AgreeOnSecrets(ctx, []visitorpass.DaySecret{secretOf(0, 1), secretOf(visitorpass.Day(now()), 1)})
	check("AgreeOnSecrets", err)
	check("SendCommand", m.c.SendCommand(ctx, report.Command{Action: report.CommandPurge, Key: "topic?id=1"}))
	for i := range int64(2) {
		check("Write of rules", m.c.Rules().Write(ctx, i, &rules.Stored{Revision: rules.Revision{Version: i + 1}}))
	}
	store := m.c.Overrides()
	for i, until := range []time.Time{{}, now().Add(time.Hour), now().Add(20 * time.Millisecond)} {
		for range 2 {
			_, err := store.Put(ctx, rules.Override{ID: fmt.Sprint("o", i), Key: "topic?id=1",
				Action: rules.ActionBlock, Until: until, Author: "ann"})
			check("Put", err)
		}
	}
	for range 2 {
		_, err := store.Trim(ctx)
		check("Trim", err)
	}
	check("Delete", store.Delete(ctx, "o0", "ann"))
}

// lostOverrides makes a process write back overrides that the server has lost.
func (m mortal) lostOverrides() {
	m.Helper()
	put(m.T, m.c.Overrides(), rules.Override{ID: "ends", Key: "topic?id=2", Action: rules.ActionBlock,
		Until: now().Add(time.Hour), Author: "ann"})
	redistest.Next(m.T, followOverrides(m.T, m.open(m.T)), "the overrides")
	m.lose(m.T)
	redistest.Eventually(m.T, "the overrides are written back", func() bool {
		return m.raw.Exists(m.Context(), overrideKeys(m.c.keys)...).Val() >= 8 // none may have ended
	})
	m.after("overrides were written back")
}

// sets publishes a set whole, as changes and emptied, and changes its owner.
func (m mortal) sets() {
	m.Helper()
	p := m.c.NewPublisher(PublisherConfig{ID: "agg"})
	set := varied(now(), 1000)
	for range 3 { // large sets travel as changes
		publish(m.T, p, set)
		m.after("Publish")
		set = renewed(set, 100*time.Millisecond)
	}
	publish(m.T, p, hot(now(), 0))
	m.after("Publish of an empty set")
	if err := p.Release(m.Context()); err != nil {
		m.Fatal(err)
	}
	m.after("Release")
	publish(m.T, m.c.NewPublisher(PublisherConfig{ID: "agg"}), hot(now(), 3))
	m.after("Publish by another owner")
}
