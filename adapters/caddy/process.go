package caddy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// running holds the pipelines by their settings. Handlers of several sites share a pipeline, and so do a configuration
// and its successor.
var running = caddy.NewUsagePool()

// settings identify a pipeline: handlers with different settings have different pipelines.
type settings struct {
	name          string // of the file, for error texts
	rules         []byte
	hasRules      bool
	redis, statsd string
	budget        time.Duration
	denials       hotparam.DenialLog
}

func (s settings) key() string {
	return fmt.Sprintf("%q %t %q %q %q %v %#v", s.name, s.hasRules, s.rules, s.redis, s.statsd, s.budget, s.denials)
}

// process is a running pipeline.
type process struct {
	pipeline *hotparam.Pipeline
	redis    *redis.Client // nil without Redis
	stop     context.CancelFunc
	ended    chan error // of Run
}

func start(s settings, log *slog.Logger) (*process, error) {
	cfg, with := hotparam.Config{Budget: s.budget, Denials: s.denials, Log: log}, shared.Config{StatsD: s.statsd}
	p := &process{ended: make(chan error, 1)}
	var err error
	if s.hasRules {
		if cfg.Rules, err = hotparam.ParseRules(s.name, s.rules); err != nil {
			return nil, err
		}
	}
	if s.redis != "" {
		opt, err := redis.ParseURL(s.redis)
		if err != nil {
			// The error's text is left out because it may hold the password.
			return nil, errors.New("hotparam: redis must be redis://[user:password@]host:port, or rediss:// for TLS")
		}
		p.redis = redis.NewClient(opt)
		with.Redis = p.redis
	}
	if with != (shared.Config{}) {
		cfg.Shared = with
	}
	if p.pipeline, err = hotparam.New(cfg); err != nil {
		p.close()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.ended <- p.pipeline.Run(ctx) }()
	return p, nil
}

// Destruct ends the pipeline after its counts have been sent.
func (p *process) Destruct() error {
	p.stop()
	err := <-p.ended
	p.close()
	return err
}

func (p *process) close() {
	if p.redis != nil {
		_ = p.redis.Close() // nothing depends on the result
	}
}
