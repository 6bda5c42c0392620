package program

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/tlsfiles"
)

// OpenRedis makes a client; budget is that of decisions, 0 where there are none.
func OpenRedis(
	cfg config.Redis,
	namespace string,
	budget time.Duration,
	log *slog.Logger,
) (*redisclient.Client, error) {
	if cfg.HotTTLBlind < 0 || cfg.HotTTLBlind > 24*time.Hour {
		return nil, fmt.Errorf("%w: --redis.hot_ttl_blind %v: want 0 to 24h", config.ErrUsage, cfg.HotTTLBlind)
	}
	return redisclient.Open(redisclient.Config{
		Addrs: cfg.Addr, Username: cfg.Username, Password: cfg.Password, DB: cfg.DB, TLS: cfg.TLS,
		TLSFiles:       tlsfiles.Files{CA: cfg.CA, Cert: cfg.Cert, Key: cfg.Key, ServerName: cfg.ServerName},
		SentinelMaster: cfg.SentinelMaster, SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: cfg.SentinelPassword,
		Namespace:        namespace, Timeout: cfg.Timeout, Budget: budget, Log: log,
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

// redisStatus is the dashboard's line about Redis.
func redisStatus(c *redisclient.Client, feed *rediscontrol.Feed) admin.Status {
	all := feed.Stats()
	st := all.Hot
	switch {
	case c.Stats().ReadOnly:
		return admin.Status{Name: "redis", Value: "refuses writes: a read-only replica"}
	case st.Err != "":
		return admin.Status{Name: "redis", Value: st.Err}
	case all.OverridesBehind:
		return admin.Status{Name: "redis",
			Value: "lost overrides that are in force here, and they may not be written back from here"}
	case st.AgeSeconds < 0:
		return admin.Status{Name: "redis", Value: "not heard yet"}
	}
	return admin.Status{Name: "redis", Value: fmt.Sprintf("heard %.1f s ago", st.AgeSeconds), OK: st.AgeSeconds < 5}
}
