package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/operator/carbon"
	"github.com/hotparam/pipeline/internal/operator/udpstat"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/transport/graphite"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func want() Expected {
	return Expected{Window: 5 * time.Second, Budget: 20 * time.Millisecond, HotTTL: 5 * time.Second,
		Lateness: 10 * time.Second,
		Metrics:  []string{"stats_counts.hotparam.topic.hot_param.id=42"}}
}

// judged is a table of findings with the texts that they must have. Level OK with an empty text means that all findings
// are ok.
type judged struct {
	name     string
	findings []Finding
	level    Level
	text     string
}

func check(t *testing.T, tests []judged) {
	t.Helper()
	for _, tt := range tests {
		worst := Report{Findings: tt.findings}.Worst()
		if tt.text == "" {
			if worst != OK || len(tt.findings) == 0 {
				t.Errorf("%s: findings %+v; want only good ones", tt.name, tt.findings)
			}
			continue
		}
		i := slices.IndexFunc(tt.findings, func(f Finding) bool {
			return f.Level == tt.level && strings.Contains(f.What, tt.text)
		})
		if i < 0 {
			t.Errorf("%s: no %s says %q: %+v", tt.name, tt.level, tt.text, tt.findings)
			continue
		}
		if f := tt.findings[i]; f.Where == "" || f.Why == "" || f.Fix == "" && !strings.Contains(f.What, "not known") {
			t.Errorf("%s: finding %+v does not say where, why and how to fix it", tt.name, f)
		}
	}
}

func TestCheckSenders_FindsUntrustedSenders(t *testing.T) {
	t.Parallel()
	loops := parse(t, `rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200, min_clients: 5}}]`)
	none := &rules.Set{}
	check(t, []judged{
		{"loopback and sockets",
			CheckSenders(
				Senders{Listen: []string{"127.0.0.1:8127", "tcp://[::1]:8127", "unix:/run/x", "udp://localhost:1"}},
				none,
				"f.yaml",
			), OK, ""},
		{"every IPv4 address", CheckSenders(Senders{Listen: []string{"0.0.0.0:8127"}}, none, "f.yaml"), Warn,
			"0.0.0.0:8127 takes lines from every address"},
		{
			"every address",
			CheckSenders(Senders{Listen: []string{"udp://:8127"}}, none, "f.yaml"),
			Warn,
			"from every address",
		},
		{
			"a list",
			CheckSenders(Senders{Listen: []string{":8127"}, Allow: []string{"10.0.0.0/8"}}, none, "f.yaml"),
			OK,
			"",
		},
		{
			"senders do not look",
			CheckSenders(Senders{NoClientsSetting: "tally.track_clients: 0"}, loops, "f.yaml"),
			Fail,
			"with tally.track_clients: 0 senders do not name clients",
		},
		{"Graphite", CheckSenders(Senders{Graphite: true}, loops, "f.yaml"), Warn, "Graphite does not know"},
	})
}

func parse(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestRules_FindsRulesWithoutEffect(t *testing.T) {
	t.Parallel()
	judge := func(text string, shared bool) []Finding { return Rules(parse(t, text), "f.yaml", shared, now) }
	const good = `parse_as: express4
rules: [{name: topic, params: [id], hot: {rate: 200, window: 5s}, limit: {algorithm: token_bucket, rate: 100, burst: 200, scope: instance}}]`
	check(t, []judged{
		{"good", judge(good, false), OK, ""},
		{"too few counters", Counters(parse(t, good), detect.Options{Counters: 1000, MaxRate: 1e6}, ""), Fail,
			"hot keys could be missed"},
		{"no parse_as", judge(strings.Replace(good, "parse_as: express4", "", 1), false), Warn,
			"no parse_as is set for topic"},
		{"empty", judge("", false), Fail, "there is no rule"},
		{"one request is hot", judge(strings.Replace(good, "rate: 200, window: 5s", "rate: 0.2, window: 5s", 1), false),
			Warn, "a single request"},
		{"no limit", judge(`rules: [{name: topic, params: [id], hot: {rate: 200}}]`, false), Warn, "has no limit"},
		{"shadow", judge(strings.Replace(good, "scope: instance", "mode: shadow", 1), true), Warn, "shadow mode"},
		{"cluster without Redis", judge(strings.Replace(good, "scope: instance", "scope: cluster", 1), false), Warn,
			"no Redis is configured"},
		{"a burst of hours", judge(strings.Replace(good, "burst: 200", "burst: 1000000", 1), false), Warn,
			"before anything is denied"},
		{"an override without an end", judge(good+"\noverrides: [{key: \"topic?id=1\", action: block}]", false), OK,
			""},
		{"an override that ended",
			judge(good+"\noverrides: [{key: \"topic?id=1\", rate: 5, until: 2026-01-01T00:00:00Z}]", false), Warn,
			"ended at 2026-01-01"},
		{"a schedule after the end",
			judge(good+
				"\noverrides: [{key: \"topic?id=1\", rate: 5, until: 2026-12-01T00:00:00Z, schedule: {from: \"0 0 1 1 *\", for: 1h}}]", false), Warn, "no window of its schedule"},
		{"not a file", []Finding{Unparsed("f.yaml", errors.New("f.yaml:3: rules[0]: bad"))}, Fail, "f.yaml:3"},
	})
	// Limits are of requests, which a rate of another cost says nothing about.
	for cost, rate := range map[string]string{"time": "500ms", "bytes": "5MB", "response.X-Cost": "0.0001"} {
		text := fmt.Sprintf("rules: [{name: slow, params: [id], cost: %s, hot: {rate: %s}", cost, rate)
		found := judge(text+"}]", false)
		if !strings.HasPrefix(found[0].Fix, "limit: {algorithm: in_flight, limit: 1}") ||
			slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.What, "a single request") }) {
			t.Errorf("%s: %+v", cost, found)
		}
	}
	changed := judge(strings.Replace(good, "express4", "{preset: express, path_params: drop}", 1), false)
	if got := changed[len(changed)-1].What; got != "rule topic: reads targets as its upstream does: express4, changed" {
		t.Error(got)
	}
}

func TestUDP_FindsSmallBuffersAndLosses(t *testing.T) {
	t.Parallel()
	good := udpstat.Inspection{MaxBuffer: 16 << 20, Asked: 16 << 20, Granted: 16 << 20, Between: time.Second}
	small, growing, once, blind, broken := good, good, good, good, good
	small.MaxBuffer, small.Granted = 212992, 212992
	growing.After = udpstat.UDP{RcvbufErrors: 7, InErrors: 7}
	once.Before, once.After = udpstat.UDP{RcvbufErrors: 7}, udpstat.UDP{RcvbufErrors: 7}
	blind.Granted, blind.Err = -1, "not on this system"
	broken.After = udpstat.UDP{InErrors: 3}
	check(t, []judged{
		{"good", UDP(good), OK, ""},
		{"small buffer", UDP(small), Warn, "asks for a receive buffer of 16 MiB and is granted 208 KiB"},
		{"losing now", UDP(growing), Fail, "7 UDP datagrams were thrown away in the last 1s"},
		{"lost once", UDP(once), Warn, "since the machine started"},
		{"broken datagrams", UDP(broken), Warn, "3 UDP datagrams came with errors"},
		{"not Linux", UDP(blind), Warn, "not known"},
	})
}

func TestStatsD_FindsWrongSettings(t *testing.T) {
	t.Parallel()
	server := func(settings map[string]string) statsd.Inspection {
		all := map[string]string{"flushInterval": "1000", "deleteIdleStats": "true"}
		for k, v := range settings {
			all[k] = v
		}
		return statsd.Inspection{Addr: "127.0.0.1:8125", Admin: "127.0.0.1:8126", Health: "up", Settings: all,
			Known: true}
	}
	plain, graphite := want(), want()
	plain.Plain, graphite.FromGraphite, graphite.Prefix = true, true, "stats_counts"
	down, silent, sick, unread, dirty := server(nil), server(nil), server(nil), server(nil), server(nil)
	down.AddrErr, silent.AdminErr, sick.Health, unread.Unread, dirty.BadLines = "nobody listens", "refused", "down",
		[]string{"flushInterval"}, "12"
	check(t, []judged{
		{"good", StatsD(server(nil), want()), OK, ""},
		{"down", StatsD(down, want()), Fail, "nobody listens"},
		{"no management", StatsD(silent, want()), Warn, "management interface"},
		{"unhealthy", StatsD(sick, want()), Warn, `"down"`},
		{"bad lines", StatsD(dirty, want()), Warn, "could not read 12 lines"},
		{"slow flush, history only", StatsD(server(map[string]string{"flushInterval": "10000"}), want()), Warn,
			"flushInterval is 10s"},
		{"slow flush, judged", StatsD(server(map[string]string{"flushInterval": "10000"}), graphite), Fail,
			"flushInterval is 10s"},
		{"default flush", StatsD(server(map[string]string{"flushInterval": ""}), graphite), Fail,
			"flushInterval is 10s"},
		{"idle keys", StatsD(server(map[string]string{"deleteIdleStats": "false"}), want()), Fail, "deleteIdleStats"},
		{"plain names", StatsD(server(nil), plain), Fail, "names.style is plain"},
		{"legacy names, asked for so", StatsD(server(nil), graphite), OK, ""},
		{"new names, asked for by the old", StatsD(server(map[string]string{"graphite > legacyNamespace": "false"}),
			graphite), Fail, "legacyNamespace"},
		{"a program, not a file", StatsD(unread, want()), Warn, "flushInterval is not known"},
		{"no such file", StatsD(statsd.Inspection{File: "config.js", FileErr: "no such file"}, want()), Fail,
			"cannot be read"},
	})
}

func TestRedis_FindsWrongSettings(t *testing.T) {
	t.Parallel()
	good := redisclient.Inspection{Addrs: []string{"127.0.0.1:6379"}, Version: "7.0.15", Role: "master",
		Policy: "noeviction", AppendOnly: true,
		Median: 100 * time.Microsecond, Worst: time.Millisecond,
		Publishers: []redisclient.PublisherSeen{{Name: "a", Live: true}}}
	with := func(change func(*redisclient.Inspection)) []Finding {
		in := good
		change(&in)
		return Redis(in, want())
	}
	withoutPasses := redisclient.Rights{User: "ann",
		Passes: []redisclient.Denied{{Right: "~hp:{news}:pass:*", Err: "NOPERM"}}}
	withRules := func(r redisclient.Rights) []Finding {
		in, a := good, want()
		in.Rights, a.RulesInRedis = r, true
		return Redis(in, a)
	}
	onlyRead := withRules(redisclient.Rights{User: "ann",
		RulesChange: []redisclient.Denied{{Right: "~hp:{news}:rules:*", Err: "NOPERM"}}})
	if !slices.ContainsFunc(onlyRead, func(f Finding) bool {
		return strings.Contains(f.What, "to change them it lacks +publish ~hp:{news}:rules:*")
	}) {
		t.Errorf("%+v", onlyRead)
	}
	check(t, []judged{
		{"good", Redis(good, want()), OK, ""},
		{"gone", with(func(in *redisclient.Inspection) { in.Err = "refused" }), Fail, "does not answer"},
		{"replica", with(func(in *redisclient.Inspection) { in.Role = "slave" }), Fail, "replica"},
		{"evicts", with(func(in *redisclient.Inspection) { in.MaxMemory, in.Policy = 1<<30, "allkeys-lru" }), Warn,
			"allkeys-lru"},
		{"has evicted", with(func(in *redisclient.Inspection) {
			in.MaxMemory, in.Policy, in.Evicted = 1<<30, "volatile-ttl", 5
		}), Fail, "5 keys were thrown away"},
		{"nearly full", with(func(in *redisclient.Inspection) { in.MaxMemory, in.UsedMemory = 100<<20, 90<<20 }), Warn,
			"90 MiB of 100 MiB"},
		{
			"overrides on nothing",
			with(func(in *redisclient.Inspection) { in.AppendOnly, in.Overrides = false, 3 }),
			Fail,
			"3 overrides and writes nothing",
		},
		{"overrides on RDB", with(func(in *redisclient.Inspection) {
			in.AppendOnly, in.Overrides, in.SavesToRDB = false, 3, true
		}), Warn, "at most now and then"},
		{"cluster down", with(func(in *redisclient.Inspection) { in.Cluster, in.ClusterState = true, "fail" }), Fail,
			`"fail"`},
		{"whole or not at all", with(func(in *redisclient.Inspection) {
			in.Cluster, in.ClusterState, in.WholeOnly = true, "ok", true
		}), Warn, "cluster-require-full-coverage"},
		{"far away", with(func(in *redisclient.Inspection) {
			in.Median, in.Worst = 30*time.Millisecond, 50*time.Millisecond
		}), Fail, "30ms"},
		{"uneven", with(func(in *redisclient.Inspection) { in.Worst = 50 * time.Millisecond }), Warn, "50ms"},
		{"clock", with(func(in *redisclient.Inspection) { in.ClockAhead = -3 * time.Second }), Warn, "-3s ahead"},
		{"clock far off", with(func(in *redisclient.Inspection) { in.ClockAhead = time.Minute }), Fail, "1m0s ahead"},
		{"overrides on what is not known", with(func(in *redisclient.Inspection) {
			in.AppendOnly, in.Overrides, in.Unknown = false, 3, map[string]string{"CONFIG GET": "NOPERM"}
		}), Warn, "at most now and then"},
		{"refuses writes", with(func(in *redisclient.Inspection) { in.ReadOnly = true }), Fail, "replica"},
		{"ACL", with(func(in *redisclient.Inspection) {
			in.Rights = redisclient.Rights{
				User:    "ann",
				Limiter: []redisclient.Denied{{Right: "+evalsha", Err: "NOPERM"}},
			}
		}), Fail, "user ann lacks +evalsha"},
		{"rules in Redis that may not be read",
			withRules(redisclient.Rights{User: "ann",
				Rules: []redisclient.Denied{{Right: "%R~hp:{news}:rules:*", Err: "NOPERM"}}}),
			Fail, "user ann lacks %R~hp:{news}:rules:*"},
		{"rules in Redis that may only be read", onlyRead, OK, ""},
		{"rules that are not in Redis", with(func(in *redisclient.Inspection) {
			in.Rights = redisclient.Rights{User: "ann",
				Rules: []redisclient.Denied{{Right: "%R~hp:{news}:rules:*", Err: "NOPERM"}}}
		}), OK, ""},
		{"passes that nobody has", with(func(in *redisclient.Inspection) { in.Rights = withoutPasses }), OK, ""},
		{"secrets of passes that may not be read", func() []Finding {
			in, a := good, want()
			in.Rights, a.Passes = withoutPasses, true
			return Redis(in, a)
		}(), Fail, "user ann lacks ~hp:{news}:pass:*"},
		{"cannot even connect", with(func(in *redisclient.Inspection) {
			in.Err, in.Rights = "NOPERM", redisclient.Rights{User: "ann",
				Limiter: []redisclient.Denied{{Right: "+client|setname", Err: "NOPERM"}}}
		}), Fail, "lacks +client|setname"},
		{"no scripts", with(func(in *redisclient.Inspection) { in.Missing = []string{"eval"} }), Fail,
			"no command EVAL"},
		{"INFO refused", with(func(in *redisclient.Inspection) { in.Unknown = map[string]string{"INFO": "NOPERM"} }),
			Warn, "memory, eviction"},
		{"a Sentinel is gone", with(func(in *redisclient.Inspection) {
			in.Sentinels, in.Silent = 3, map[string]string{"127.0.0.1:26379": "connection refused"}
		}), Warn, "a Sentinel does not say"},
		{"most Sentinels hang", with(func(in *redisclient.Inspection) {
			in.Sentinels, in.Silent = 3, map[string]string{"127.0.0.1:26379": "timeout", "127.0.0.1:26380": "timeout"}
		}), Fail, "only 1 of 3 Sentinels say"},
		{"no Sentinel answers", with(func(in *redisclient.Inspection) {
			in.Err, in.Sentinels, in.Silent = "timeout", 1, map[string]string{"127.0.0.1:26379": "timeout"}
		}), Fail, "only 0 of 1 Sentinels say"},
		{"nobody publishes", with(func(in *redisclient.Inspection) { in.Publishers = nil }), Warn,
			"no aggregator publishes"},
		{"one name, two processes", with(func(in *redisclient.Inspection) {
			in.Publishers = []redisclient.PublisherSeen{{Name: "a", Live: true, Takeovers: 4}}
		}), Fail, "changed hands 4 times"},
		{"managed", with(func(in *redisclient.Inspection) {
			in.Unknown = map[string]string{"CONFIG GET": "unknown command"}
		}), Warn, "CONFIG GET is not known"},
	})
}

// The command of a remedy reaches the server at any kind of address.
func TestRedisCLI_NamesEachKindOfAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:6379": "redis-cli -h 127.0.0.1 -p 6379", "[::1]:6380": "redis-cli -h ::1 -p 6380",
		"/run/redis.sock": "redis-cli -s /run/redis.sock",
	} {
		if got := redisCLI(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// Findings about the documented users have no failure, each remedy fixes its finding, and rights that a limiter does
// not need are findings of level ok.
func TestRedis_AcceptsTheDocumentedUsers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	redistest.Grant(t, []*redistest.Server{s})
	look := func(user string) []Finding {
		client, err := redisclient.Open(redisclient.Config{
			Addrs: []string{s.Addr()}, Namespace: "news", Username: user, Password: "pw", Timeout: redistest.Patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		return Redis(client.Inspect(t.Context()), Expected{Budget: redistest.Patience, HotTTL: time.Minute})
	}
	find := func(found []Finding, level Level, what string) (f Finding) {
		for _, f := range found {
			if f.Level == level && strings.Contains(f.What, what) {
				return f
			}
		}
		return Finding{}
	}
	for user, may := range map[string]string{"hotparam-limiter": "for an aggregator or to change overrides it lacks",
		"hotparam-aggregator": "may do all"} {
		found := look(user)
		if f := find(found, Fail, ""); f != (Finding{}) {
			t.Errorf("%s: %+v", user, f)
		}
		if !s.Before(7, 0) && find(found, OK, may) == (Finding{}) ||
			find(found, OK, "no key is evicted") != (Finding{}) ||
			find(found, Warn, "INFO is not known") == (Finding{}) {
			t.Errorf("%s: %+v", user, found)
		}
	}
	if err := s.Client().Do(t.Context(), "ACL", "SETUSER", "hotparam-limiter", "-evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	f := find(look("hotparam-limiter"), Fail, "")
	if f.What == "" || !strings.Contains(f.Fix, "redis-cli ACL SETUSER hotparam-limiter '+evalsha' ") {
		t.Errorf("without EVALSHA: %+v", f)
	}
}

func TestKafka_FindsWrongSettings(t *testing.T) {
	t.Parallel()
	good := kafka.Inspection{Brokers: []string{"127.0.0.1:9092"}, Topic: "hotparam-counts", Group: "g", Found: 3,
		Partitions: 8, Replicas: 3, InSync: 3, Members: 2,
		Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "3600000",
			"max.message.bytes": "1048588"}}
	with := func(change func(*kafka.Inspection)) []Finding {
		in := good
		change(&in)
		return Kafka(in, true, want())
	}
	setting := func(name, value string) []Finding {
		return with(func(in *kafka.Inspection) { in.Settings = map[string]string{name: value} })
	}
	missing := good
	missing.Missing = true
	check(t, []judged{
		{"good", Kafka(good, true, want()), OK, ""},
		{"gone", with(func(in *kafka.Inspection) { in.Err = "cannot reach brokers" }), Fail, "cannot reach"},
		{"missing, made at need", Kafka(missing, true, want()), Warn, "does not exist"},
		{"missing", Kafka(missing, false, want()), Fail, "does not exist"},
		{"leaderless", with(func(in *kafka.Inspection) { in.Leaderless = 1 }), Fail, "no leader"},
		{"out of sync", with(func(in *kafka.Inspection) { in.InSync = 1 }), Warn, "1 of 3 copies"},
		{"one copy", with(func(in *kafka.Inspection) { in.Replicas, in.InSync = 1, 1 }), Warn, "one copy"},
		{"one partition", with(func(in *kafka.Inspection) { in.Partitions, in.Members = 1, 1 }), Warn, "one partition"},
		{"compacted", setting("cleanup.policy", "compact,delete"), Fail, "compact"},
		{"forgets", setting("retention.ms", "1000"), Fail, "retention.ms"},
		{"hoards", setting("retention.ms", "2592000000"), Warn, "720h"},
		{"small records", setting("max.message.bytes", "1000"), Fail, "max.message.bytes is 1000"},
		{"times of arrival", setting("message.timestamp.type", "LogAppendTime"), Warn, "LogAppendTime"},
		{"nobody reads", with(func(in *kafka.Inspection) { in.Members = 0 }), Warn, "no member"},
		{"two namespaces in one group", with(func(in *kafka.Inspection) {
			in.Members, in.Strangers = 2, []string{"hotparam-shop"}
		}), Fail, "not aggregators of this namespace: client ids hotparam-shop"},
		{"too many read", with(func(in *kafka.Inspection) { in.Members = 9 }), Warn, "9 members for 8"},
		{"behind", with(func(in *kafka.Inspection) { in.Lag = 5000 }), Warn, "5000 records behind"},
		{"secret", with(func(in *kafka.Inspection) { in.Unknown = map[string]string{"settings": "denied"} }), Warn,
			"settings is not known"},
	})
}

func TestGraphite_FindsStaleOrCoarseData(t *testing.T) {
	t.Parallel()
	good := graphite.Inspection{URL: "http://g/render", Version: "1.1.8", ClockKnown: true, Series: 3,
		Step: time.Second, Age: time.Second, Flush: time.Second}
	with := func(change func(*graphite.Inspection)) []Finding {
		in := good
		change(&in)
		return Graphite(in, want())
	}
	check(t, []judged{
		{"good", Graphite(good, want()), OK, ""},
		{"gone", with(func(in *graphite.Inspection) { in.Err = "answered 401" }), Fail, "401"},
		{"no function", with(func(in *graphite.Inspection) { in.PollErr = "answered 400" }), Fail,
			"rejected: answered 400"},
		{"old", with(func(in *graphite.Inspection) { in.Version = "0.9.16" }), Warn, "version 0.9.16"},
		{"silent", with(func(in *graphite.Inspection) { in.Version = "" }), Warn, "not known"},
		{"clock", with(func(in *graphite.Inspection) { in.ClockAhead = 5 * time.Second }), Warn, "5s ahead"},
		{"clock far off", with(func(in *graphite.Inspection) { in.ClockAhead = -time.Minute }), Fail, "-1m0s ahead"},
		{"no clock", with(func(in *graphite.Inspection) { in.ClockKnown = false }), Warn, "clock is not known"},
		{"no metrics", with(func(in *graphite.Inspection) { in.Series = 0 }), Warn, "no metric of ours"},
		{"stale", with(func(in *graphite.Inspection) { in.Age = time.Minute }), Warn, "1m0s old"},
		{"never", with(func(in *graphite.Inspection) { in.Age = -1 }), Warn, "ten minutes or more old"},
		{"too coarse", with(func(in *graphite.Inspection) { in.Step = time.Minute }), Fail,
			"points are 1m0s apart; the shortest window"},
		{"overwritten", with(func(in *graphite.Inspection) { in.Step = 2 * time.Second }), Fail,
			"points are 2s apart; graphite.flush is 1s"},
	})
}

func TestCarbon_FindsTheDefaultsOfDebian(t *testing.T) {
	t.Parallel()
	graphite := want()
	graphite.FromGraphite = true
	defaults := carbon.Inspect("testdata/debian")
	good := carbon.Inspect("testdata/good")
	check(t, []judged{
		{"good", Carbon(good, time.Second, graphite), OK, ""},
		{"what we deploy", Carbon(carbon.Inspect("../../../deploy/graphite"), time.Second, graphite), OK, ""},
		{"few creates", Carbon(defaults, time.Second, want()), Fail, "MAX_CREATES_PER_MINUTE = 50"},
		{"few updates", Carbon(defaults, time.Second, want()), Warn, "MAX_UPDATES_PER_SECOND = 500"},
		{"a minute", Carbon(defaults, time.Second, graphite), Fail, "one point in 1m0s"},
		{"a minute of history", Carbon(defaults, time.Second, want()), Warn, "one point in 1m0s"},
		{"thinned out", Carbon(defaults, time.Second, want()), Warn, "average with xFilesFactor 0.5"},
		{"overwritten", Carbon(good, 100*time.Millisecond, want()), Fail, "comes every 100ms"},
		{"nothing there", Carbon(carbon.Inspect(t.TempDir()), 0, want()), Fail, "no schema"},
	})
}

func TestCache_FindsResponsesWithoutCacheFields(t *testing.T) {
	t.Parallel()
	set := parse(t, "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 1}, cache: {}}]\n")
	plain := parse(t, "rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 1}}]\n")
	silent := []SilentUpstream{{"topic", "", 7}, {"page", "slow", 1}}
	both := Cache(CacheInspection{Admin: "http://a", Present: true, Silent: silent}, set)
	check(t, []judged{
		{"good", Cache(CacheInspection{Admin: "http://a", Present: true}, set), OK, ""},
		{"silent", both, Warn, "rule topic: 7 stored responses of the default upstream came with neither Cache-Control nor Vary"},
		{"silent, named", both, Warn, "rule page: 1 stored responses of upstream slow"},
		{"gone", Cache(CacheInspection{Admin: "http://a", Err: "connection refused"}, set), Fail, "connection refused"},
		{"an aggregator", Cache(CacheInspection{Admin: "http://a"}, set), Warn, "no response cache"},
		{"no program", Cache(CacheInspection{}, set), Warn, "not known, for topic"},
	})
	if got := Cache(CacheInspection{}, plain); len(got) > 0 {
		t.Errorf("without a rule that caches: %+v", got)
	}
}

func TestMemory_FindsBoundsOverTheLimit(t *testing.T) {
	t.Parallel()
	of := func(limit, proxy int64) []Finding {
		return Memory(MemoryInspection{Admin: "http://a", Limit: limit,
			Bounds: map[string]int64{"admin": 1 << 20, "proxy": proxy}})
	}
	check(t, []judged{
		{"room", of(4<<30, 1<<30), OK, ""},
		{"little room", of(2<<30, 1<<30), Warn, "the process may take 2 GiB"},
		{"unknown", of(0, 1<<30), OK, ""},
		{"no bound", of(4<<30, 0), Warn, "proxy.max_connections is 0"},
	})
	if got := Memory(MemoryInspection{Limit: 1}); len(got) > 0 {
		t.Errorf("without listeners: %+v", got)
	}
}

func TestRules_FindsProxiesThatAreEveryClient(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("f.yaml", []byte("ip: {trusted_proxies: [0.0.0.0/0]}"))
	if err != nil {
		t.Fatal(err)
	}
	found := Rules(set, "f.yaml", false, time.Now())
	check(t, []judged{{"all", found, Warn, "0.0.0.0/0: nearly every client is trusted"}})
}

func TestEnvoy_FindsRequestsThatAreTooLong(t *testing.T) {
	t.Parallel()
	check(t, []judged{
		{"long", Envoy(EnvoyInspection{TooLong: 3}), Warn, "3 requests were denied"},
		{"wide", Envoy(EnvoyInspection{Surplus: 2}), Warn, "2 descriptors were not decided"},
		{"busy", Envoy(EnvoyInspection{Busy: 1}), Warn, "1 calls got no answer"},
	})
	if got := Envoy(EnvoyInspection{}); len(got) > 0 {
		t.Errorf("of an Envoy within the bounds: %+v", got)
	}
}

func TestWrite_WritesFindingsAndTotals(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	r := Report{Findings: []Finding{
		{Level: OK, What: "fine", Where: "here"},
		{Level: Fail, What: "bad\x1b[2J", Where: "there", Why: "because", Fix: "first\nsecond"},
	}}
	if err := Write(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	const want = "ok    fine\n      where here\nfail  bad\uFFFD[2J\n      where there\n      why   because\n      fix   first\n            second\n1 ok, 0 warnings, 1 failures\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := Write(&b, r, Options{Color: true, Quiet: true}); err != nil || strings.Contains(b.String(), "fine") ||
		!strings.HasPrefix(b.String(), "\x1b[31;1mfail\x1b[0m") {
		t.Errorf("quiet and coloured: %q, %v", b.String(), err)
	}
}
