package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/storage/etcdrules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/textfile"
	"github.com/hotparam/pipeline/internal/tlsfiles"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// KafkaConfig returns the configuration of a reader or writer of the topic for the settings.
func KafkaConfig(k config.Kafka, namespace string, log *slog.Logger) kafka.Config {
	return kafka.Config{
		Brokers: k.Brokers, Topic: k.Topic, Namespace: namespace, CreateTopic: k.Create, Partitions: k.Partitions,
		TLS:   kafka.TLS{Enabled: k.TLS, Files: tlsfiles.Files(k.Files)},
		Login: kafka.Login{Mechanism: k.SASL, Username: k.Username, Password: k.Password, PasswordFile: k.PasswordFile},
		Log:   log,
	}
}

// OpenRedis returns a client of Redis. budget is the time budget of decisions, or 0 if the program makes no decisions.
func OpenRedis(cfg config.Redis, namespace string, budget time.Duration,
	log *slog.Logger) (*redisclient.Client, error) {
	if cfg.HotTTLNoInput < 0 || cfg.HotTTLNoInput > 24*time.Hour {
		return nil, config.Usage("--redis.hot_ttl_no_input %v must be 0 to 24h", cfg.HotTTLNoInput)
	}
	for setting, set := range map[string][2]string{"redis.password": {cfg.Password, cfg.PasswordFile},
		"redis.sentinel_password": {cfg.SentinelPassword, cfg.SentinelPasswordFile}} {
		if set[0] != "" && set[1] != "" {
			return nil, config.Usage("--%s and --%[1]s_file are both set; keep one", setting)
		}
		if _, err := textfile.Secret(set[1]); set[1] != "" && err != nil {
			return nil, config.Usage("--%s_file: %w", setting, err)
		}
	}
	return redisclient.Open(redisclient.Config{
		Addrs: cfg.Addr, Username: cfg.Username, Password: cfg.Password, PasswordFile: cfg.PasswordFile, DB: cfg.DB,
		TLS: cfg.TLS, SentinelPasswordFile: cfg.SentinelPasswordFile,
		TLSFiles: tlsfiles.Files(cfg.Files), SentinelMaster: cfg.SentinelMaster,
		SentinelUsername: cfg.SentinelUsername, SentinelPassword: cfg.SentinelPassword,
		Namespace: namespace, Timeout: cfg.Timeout, Budget: budget, Log: log,
	})
}

// warnAbsent logs at the start that Redis does not answer. That is not an error, because the program runs and goes on
// by itself when Redis comes.
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
		line.Value = "rejects writes: a read-only replica"
	case c.Stats().SentinelsTooFew:
		line.Value = "too few Sentinels answer: a master that they replace is not noticed"
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

// openRuleStore is the [program.OpenRules] of Redis and etcd.
func openRuleStore(cfg program.CentralConfig, namespace string,
	log *slog.Logger) (program.RuleStore, func() error, error) {
	kind, key, _ := strings.Cut(cfg.Rules, ":")
	switch {
	case cfg.Rules == "redis:" && len(cfg.Redis.Addr) == 0:
		return nil, nil, config.Usage("--rules redis: where is Redis? Set --redis.addr, such as 127.0.0.1:6379")
	case cfg.Rules == "redis:":
		client, err := OpenRedis(cfg.Redis, namespace, 0, log)
		if err != nil {
			return nil, nil, err
		}
		return rediscontrol.New(client).Rules(), client.Close, nil
	case kind == "etcd":
		store, err := openEtcd(cfg.Etcd, key, log)
		if err != nil {
			return nil, nil, config.Usage("--rules %s: %w", cfg.Rules, err)
		}
		return store, store.Close, nil
	}
	return nil, nil, config.Usage("--rules %q must be redis: or etcd:KEY", cfg.Rules)
}

func openEtcd(cfg config.Etcd, key string, log *slog.Logger) (*etcdrules.Store, error) {
	c := etcdrules.Config{Endpoints: cfg.Addr, Key: key, Username: cfg.Username, Password: cfg.Password,
		Timeout: cfg.Timeout, Log: log}
	if cfg.TLS || cfg.Files != (config.TLSFiles{}) {
		var err error
		if c.TLS, err = tlsfiles.Files(cfg.Files).Client("etcd.tls_"); err != nil {
			return nil, err
		}
	}
	return etcdrules.Open(c)
}

// Logger returns program.Logger, and makes the client of Redis write to it too.
func Logger(c config.Log) *slog.Logger {
	log := program.Logger(c)
	redisclient.LogTo(log)
	return log
}
