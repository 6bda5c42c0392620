package rediscontrol

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// followCommands runs FollowCommands until the test ends, and waits until it listens.
func followCommands(t *testing.T, c *Feed) <-chan report.Command {
	t.Helper()
	out := make(chan report.Command, 10_000)
	syncs := c.commands.read().Syncs
	redistest.Running(t, func(ctx context.Context) error {
		return c.FollowCommands(ctx, func(cmd report.Command) { out <- cmd })
	})
	redistest.Eventually(t, "a first poll", func() bool { return c.commands.read().Syncs > syncs })
	return out
}

// Every follower receives each command once, in order, even if the notice is lost; a later subscriber receives no
// earlier command.
func testCommands(t *testing.T, s server) {
	ctx := context.Background()
	one, other := s.open(t), s.open(t)
	send := func(c report.Command) {
		t.Helper()
		if err := one.SendCommand(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	send(report.Command{Action: report.CommandReset, Key: "before"})
	followers := []<-chan report.Command{followCommands(t, one), followCommands(t, other)}
	all := []report.Command{
		{Action: report.CommandReset, Key: "topic?id=42"},
		{Action: report.CommandReset, Key: "topic?id=\x00 \n\xff"},
		{Action: report.CommandPurge, Key: "topic?id=42"},
		{Action: report.CommandReset, Client: hottype.Client{Addr: netip.MustParseAddr("2001:db8::")}},
		{Action: report.CommandTrace, Client: hottype.Client{Name: "anna b"}},
		{Action: report.CommandReset, Key: "topic?id=42"}, // again
	}
	for _, c := range all[:5] {
		send(c)
	}
	for _, f := range followers {
		for i, want := range all[:5] {
			if got := redistest.Next(t, f, "a command"); got != want {
				t.Errorf("command %d: %+v, want %+v", i, got, want)
			}
		}
	}
	// The log gets a malformed command, and a command whose notice is lost.
	k := one.keys.Commands()
	last := s.raw.ZRevRangeWithScores(ctx, k, 0, 0).Val()[0].Score
	s.raw.ZAdd(ctx, k, redis.Z{Score: last + 1, Member: "explode key x"},
		redis.Z{Score: last + 2, Member: formatCommand(all[5])})
	for _, f := range followers {
		if got := redistest.Next(t, f, "a command without a notice"); got != all[5] {
			t.Errorf("%+v", got)
		}
	}
	if n := one.Stats().Commands.Malformed; n != 1 {
		t.Errorf("%d commands were malformed", n)
	}
	if ttl := s.raw.PTTL(ctx, k).Val(); ttl <= 0 || ttl > commandLife {
		t.Errorf("they live for %v", ttl)
	}
}

func TestCommandsThatNobodyWouldUnderstand(t *testing.T) {
	t.Parallel()
	f := open(t, "127.0.0.1:1") // it is not called
	for _, c := range []report.Command{
		{}, {Action: report.CommandReset}, {Action: "explode", Key: "k"}, {Action: "reset key", Key: "k"},
		{Action: report.CommandReset, Key: hottype.Key(strings.Repeat("k", maxCommand))},
		{Action: report.CommandReset, Key: "k", Client: hottype.Client{Name: "both"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := f.SendCommand(ctx, c); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.200s: %v", fmt.Sprint(c), err)
		}
		cancel()
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, s := range []string{"reset key topic?id=42", "purge key x", "reset addr 192.0.2.7", "reset client a b",
		"reset  x", "reset addr fe80::1%eth0", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCommand(text)
		if err != nil {
			return
		}
		again, err := parseCommand(formatCommand(c))
		if err != nil || again != c {
			t.Errorf("%q is %+v, and that is %+v, %v", text, c, again, err)
		}
	})
}
