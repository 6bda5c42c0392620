package redisclient

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// rights returns the missing rights, each followed by a space.
func rights(denied []Denied) string {
	var b strings.Builder
	for _, d := range denied {
		fmt.Fprintf(&b, "%s ", d.Right)
	}
	return b.String()
}

// The documented users have all rights that they need. If any single right is removed, Inspect names it.
func TestInspect_NamesEachMissingRight(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if s.Before(7, 0) {
		t.Skip("Redis 6 has other words for the same")
	}
	for change, want := range map[string]string{ // of the limiter's user
		"":                        "",
		"-@connection":            "+client|setname ",
		"-@read":                  "+@read ",
		"-@write":                 "+@write ",
		"-hgetall":                "+hgetall ",
		"-zremrangebyscore":       "+zremrangebyscore ",
		"-ping":                   "+ping ",
		"-eval":                   "+eval ",
		"-evalsha":                "+evalsha ",
		"-subscribe":              "+subscribe ",
		"-time":                   "+time ",
		"&hp:{news}:*":            "&hp:{news}:* ",
		"%R~hp:{news}:hot:*":      "%R~hp:{news}:hot:* ",
		"%R~hp:{news}:override:*": "%R~hp:{news}:override:* ",
		"%R~hp:{news}:command:*":  "%R~hp:{news}:command:* ",
		"%R~hp:{news}:rules:*":    "", // only for rules in Redis
		"~hp:{news}:report:*":     "~hp:{news}:report:* ",
		"~hp:{news}:pass:*":       "", // only for rules with classes that are proved by passes
		"~hp:{news}:limit:*":      "~hp:{news}:limit:* ",
		"~hp:{news}:block:*":      "~hp:{news}:block:* ",
		"~hp:{news/*}:*":          "", // only on a cluster
	} {
		in := inspectAs(t, s, "hotparam-limiter", change)
		if got := rights(in.Rights.Limiter); got != want || change == "" && in.Err != "" {
			t.Errorf("limiter %s: lacks %q, want %q; %s", change, got, want, in.Err)
		}
		if got := rights(in.Rights.Rules); change == "" &&
			(got != "" || rights(in.Rights.RulesChange) != "~hp:{news}:rules:* ") ||
			change == "%R~hp:{news}:rules:*" && got != change+" " {
			t.Errorf("limiter %s: lacks %q to follow rules, %q to change them", change, got,
				rights(in.Rights.RulesChange))
		}
		got, lacks := rights(in.Rights.Passes), change == "~hp:{news}:pass:*"
		if lacks != (got == "~hp:{news}:pass:* ") {
			t.Errorf("limiter %s: lacks %q for passes", change, got)
		}
		if got := rights(in.Rights.Aggregator); change == "" &&
			got != "+publish ~hp:{news}:hot:* ~hp:{news}:override:* ~hp:{news}:command:* " {
			t.Errorf("the limiter's user lacks for an aggregator: %q", got)
		}
	}
	for change, want := range map[string]string{"": "", "-publish": "+publish ", "-ltrim": "+ltrim ",
		"-zremrangebyrank": "+zremrangebyrank ", "-zincrby": "+zincrby ", "-zrangebylex": "+zrangebylex "} {
		in := inspectAs(t, s, "hotparam-aggregator", change)
		if got := rights(in.Rights.Aggregator); got != want ||
			len(in.Rights.Limiter)+len(in.Rights.Rules)+len(in.Rights.RulesChange) > 0 || in.Err != "" {
			t.Errorf("aggregator %s: lacks %q and %q, want %q; %s", change, rights(in.Rights.Limiter), got, want,
				in.Err)
		}
	}
	for _, key := range s.Keys() {
		if key != "hp:{news}:report:probe" {
			t.Errorf("an inspection left %q", key)
		}
	}
}

func TestInspect_RightsOfDocumentedUsersSufficeOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	redistest.Grant(t, cluster.Nodes, "+cluster|slots", "+cluster|shards", "+command")
	for _, user := range []string{"hotparam-limiter", "hotparam-aggregator"} {
		in := openWith(t, Config{Addrs: cluster.Addrs(), Namespace: "news", Username: user, Password: "pw"}).
			Inspect(t.Context())
		if in.Err != "" || user == "hotparam-limiter" && len(in.Rights.Limiter) > 0 || !in.Cluster {
			t.Errorf("%s: %s, lacks %v", user, in.Err, in.Rights.Limiter)
		}
	}
}

// inspectAs inspects as a documented user with one change: a rule added, or a pattern of keys taken away.
func inspectAs(t *testing.T, s *redistest.Server, user, change string) Inspection {
	t.Helper()
	ctx := context.Background()
	for line := range strings.Lines(redistest.Documentation(t)) {
		if !strings.HasPrefix(line, "ACL SETUSER "+user+" ") {
			continue
		}
		args := []any{"ACL", "SETUSER", "probed", "reset"}
		for _, word := range s.Known(line)[3:] {
			if word != change {
				args = append(args, word)
			}
		}
		if strings.HasPrefix(change, "-") {
			args = append(args, change)
		}
		if err := s.Client().Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return openWith(t, Config{Addrs: []string{s.Addr()}, Namespace: "news", Username: "probed", Password: "pw"}).
		Inspect(ctx)
}
