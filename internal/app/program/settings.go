package program

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/tlsfiles"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// Settings of programs, as the packages take them.

func tallyConfig(cfg config.Tally, log *slog.Logger) tally.Config {
	if cfg.TrackClients <= 0 {
		cfg.TrackClients = -1 // to the tally, 0 is its default
	}
	return tally.Config{Flush: cfg.Flush, MaxKeys: cfg.MaxKeys, TrackClients: cfg.TrackClients, Log: log}
}

func gateConfig(cfg config.Gate, log *slog.Logger) gate.Config {
	return gate.Config{
		Local:    limit.NewMemory(limit.MemoryConfig{MaxSubjects: cfg.MaxSubjects}),
		Instance: lifecycle.InstanceName(cfg.Instance), Log: log,
	}
}

func KafkaConfig(k config.Kafka, namespace string, log *slog.Logger) kafka.Config {
	f := k.Files
	return kafka.Config{
		Brokers: k.Brokers, Topic: k.Topic, Namespace: namespace, CreateTopic: k.Create, Partitions: k.Partitions,
		TLS:   kafka.TLS{Enabled: k.TLS, CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key, ServerName: f.ServerName},
		Login: kafka.Login{Mechanism: k.SASL, Username: k.Username, Password: k.Password}, Log: log,
	}
}

func detectConfig(cfg config.Detect, log *slog.Logger) aggregate.Config {
	return aggregate.Config{
		Tick: cfg.Tick, HotTTL: cfg.HotTTL, Lateness: cfg.Lateness, Counters: cfg.Counters, MaxRate: cfg.MaxRate,
		Log: log,
	}
}

// checkCounters makes the check that there are counters for the rates that the rules,
// or the settings, say they expect.
func checkCounters(cfg config.Detect) func(*rules.Set) error {
	return func(set *rules.Set) error { return pipeline.CheckRules(set, detectConfig(cfg, nil)) }
}

func metricsOf(p *pipeline.Pipeline) []metrics.Collector {
	return slices.Concat([]metrics.Collector{
		metrics.Of(p.Gate.Stats), metrics.Of(func() hotset.Stats { return p.Hot.Stats(time.Now()) }),
		metrics.Of(p.Crawlers.Stats), metrics.Of(p.Bounds),
	}, metricsIf(p.Tally, p.Tally.Stats), metricsIf(p.Aggregate, p.Aggregate.Stats), metricsIf(p.Feed, p.Feed.Stats),
		metricsIf(p.Limits, p.Limits.Stats), metricsIf(p.Windows, p.Windows.Stats),
		metricsIf(p.Refunds, p.Refunds.Stats), metricsIf(p.Prefetch, p.Prefetch.Stats))
}

// metricsIf are the metrics of a part; none if it is nil.
func metricsIf[T, S any](part *T, stats func() S) []metrics.Collector {
	if part == nil {
		return nil
	}
	return []metrics.Collector{metrics.Of(stats)}
}

// machineMemory is how many bytes the machine has, or the container if that may have less. It is
// math.MaxInt64 if it is unknown. root is the root directory, which has the figures on Linux.
func machineMemory(root fs.FS) int64 {
	all := int64(math.MaxInt64)
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		_, rest, _ := bytes.Cut(text, []byte("MemTotal:"))
		if fields := bytes.Fields(rest); len(fields) > 0 {
			all = atMost(all, fields[0], 1<<10)
		}
	}
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // cgroup 2 and 1; "max" is no number
		if text, err := fs.ReadFile(root, "sys/fs/cgroup/"+name); err == nil {
			all = atMost(all, bytes.TrimSpace(text), 1)
		}
	}
	return all
}

// atMost is the smaller of n and a number of units, or n where that is no number.
func atMost(n int64, number []byte, unit int64) int64 {
	m, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || m <= 0 || m > math.MaxInt64/unit {
		return n
	}
	return min(n, m*unit)
}

// checkCacheMemory refuses a cache that the machine cannot hold, and warns of one that takes
// more than half of it: answers on their way to clients and the collector need room besides.
func checkCacheMemory(bytes, machine int64, log *slog.Logger) error {
	switch {
	case bytes > machine:
		return config.Usage("--proxy.cache_memory %d is more than the %d bytes of memory that this machine or "+
			"container has", bytes, machine)
	case bytes > machine/2:
		log.Warn("proxy.cache_memory is more than half of the memory of this machine or container; the process needs "+
			"about twice as much when the cache is full", "cache_memory", bytes, "memory", machine)
	}
	return nil
}

// OpenRedis makes a client; budget is that of decisions, 0 where there are none.
func OpenRedis(cfg config.Redis, namespace string, budget time.Duration,
	log *slog.Logger) (*redisclient.Client, error) {
	if cfg.HotTTLBlind < 0 || cfg.HotTTLBlind > 24*time.Hour {
		return nil, config.Usage("--redis.hot_ttl_blind %v: want 0 to 24h", cfg.HotTTLBlind)
	}
	return redisclient.Open(redisclient.Config{
		Addrs: cfg.Addr, Username: cfg.Username, Password: cfg.Password, DB: cfg.DB, TLS: cfg.TLS,
		TLSFiles: tlsfiles.Files(cfg.Files), SentinelMaster: cfg.SentinelMaster,
		SentinelUsername: cfg.SentinelUsername, SentinelPassword: cfg.SentinelPassword,
		Namespace: namespace, Timeout: cfg.Timeout, Budget: budget, Log: log,
	})
}

// warnAbsent logs at the start that Redis does not answer. It is no error: the
// program runs and goes on by itself when Redis comes.
func warnAbsent(ctx context.Context, c *redisclient.Client, log *slog.Logger) {
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := c.Ping(short); err != nil {
		log.Warn("Redis does not answer yet; trying again until it does. Is --redis.addr right?", "err", err)
	}
}

func redisStatus(c *redisclient.Client, feed *rediscontrol.Feed) admin.Status {
	all := feed.Stats()
	line, st := admin.Status{Name: "redis"}, all.Hot
	switch {
	case c.Stats().ReadOnly:
		line.Value = "refuses writes: a read-only replica"
	case st.Err != "":
		line.Value = st.Err
	case all.OverridesBehind:
		line.Value = "lost overrides that are in force here, and they may not be written back from here"
	case st.AgeSeconds < 0:
		line.Value = "not heard yet"
	default:
		line.Value, line.OK = fmt.Sprintf("heard %.1f s ago", st.AgeSeconds), st.AgeSeconds < 5
	}
	return line
}
