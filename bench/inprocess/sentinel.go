package main

import (
	"net/http"

	sentinel "github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/base"
	"github.com/alibaba/sentinel-golang/core/config"
	"github.com/alibaba/sentinel-golang/core/hotspot"
	"github.com/alibaba/sentinel-golang/logging"
)

// peer is the name of the other side in the tables.
const peer = "sentinel-golang v1.0.4"

// quiet is a logger of sentinel that drops everything.
type quiet struct{}

func (quiet) Debug(string, ...any)        {}
func (quiet) DebugEnabled() bool          { return false }
func (quiet) Info(string, ...any)         {}
func (quiet) InfoEnabled() bool           { return false }
func (quiet) Warn(string, ...any)         {}
func (quiet) WarnEnabled() bool           { return false }
func (quiet) Error(error, string, ...any) {}
func (quiet) ErrorEnabled() bool          { return false }

var _ logging.Logger = quiet{}

// startSentinel initialises sentinel with its defaults, but without files: no logs and no collectors in the background,
// which can only make it faster.
func startSentinel() error {
	c := config.NewDefaultConfig()
	c.Sentinel.Log.Logger = quiet{}
	c.Sentinel.Log.Metric.FlushIntervalSec = 0
	c.Sentinel.Stat.System.CollectIntervalMs = 0
	c.Sentinel.Stat.System.CollectLoadIntervalMs = 0
	c.Sentinel.Stat.System.CollectCpuIntervalMs = 0
	c.Sentinel.Stat.System.CollectMemoryIntervalMs = 0
	return sentinel.InitWithConfig(c)
}

// loadSentinel sets the one rule: perSecond requests a second for each value of the first argument, as a token bucket,
// with sentinel's own number of remembered values.
func loadSentinel(perSecond int64) error {
	_, err := hotspot.LoadRules([]*hotspot.Rule{{
		Resource: "topic", MetricType: hotspot.QPS, ControlBehavior: hotspot.Reject,
		ParamIndex: 0, Threshold: perSecond, DurationInSec: 1,
	}})
	return err
}

// askSentinel decides by arguments that are already parsed.
func askSentinel(id, lang, page string) bool {
	entry, blocked := sentinel.Entry("topic", sentinel.WithTrafficType(base.Inbound), sentinel.WithArgs(id, lang, page))
	if blocked != nil {
		return false
	}
	entry.Exit()
	return true
}

// sentinelHandler puts sentinel before a handler, as its users do.
func sentinelHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		entry, blocked := sentinel.Entry("topic", sentinel.WithTrafficType(base.Inbound),
			sentinel.WithArgs(q.Get("id"), q.Get("lang"), q.Get("page")))
		if blocked != nil {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		defer entry.Exit()
		next.ServeHTTP(w, r)
	})
}
