// Package metrics renders the statistics of a program for Prometheus. No other package of the pipeline knows a metrics
// library: the other packages return plain Stats structs.
//
//	gate.Stats, redisclient.Stats, … ──> [Of] ──> [Registry] ──> GET /metrics
//
// A metric is declared where it is counted, by the tags of its field, and [Of] reads these tags. A field that no metric
// shows fails a test. A part reads its statistics once at each scrape and at its registration.
//
// Labels are bounded: by the rules, by the configuration, or by a list in the code. Only the rates of hot keys, which
// are off by default, have a label that a client may choose.
package metrics

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/serving/listener"
)

// Collector sends the metrics of one part of a program.
type Collector = prometheus.Collector

// Registry holds the metrics of one program and serves them over HTTP. It may be used by many goroutines.
type Registry struct {
	http.Handler
	registry *prometheus.Registry
}

// New returns the registry of a program that consists of parts; Add adds further parts. The registry also has metrics
// of the Go runtime and of the process.
func New(namespace, version string, log *slog.Logger, parts ...Collector) *Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry := &Registry{registry: r, Handler: promhttp.HandlerFor(r, promhttp.HandlerOpts{
		// One wrong metric must not hide all the others.
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            logbound.Std(log, slog.LevelError, "metrics: a scrape failed"),
		MaxRequestsInFlight: 4,
	})}
	registry.Add(Of(func() info { return info{namespace, version, true} }))
	registry.Add(parts...)
	return registry
}

// Add adds parts. It panics if two parts have a metric in common.
func (r *Registry) Add(parts ...Collector) { r.registry.MustRegister(parts...) }

type info struct {
	Namespace string `label:"namespace"`
	Version   string `label:"version"`
	Info      bool   `metric:"hotparam_info" help:"Always 1; the labels say which namespace and version this is."`
}

// maxLabel is the longest value of a label, in bytes.
const maxLabel = 200

// labelValue makes s printable and cuts a long value, with a hash that keeps cut values apart.
func labelValue(s string) string {
	shown := encodePrintable(s)
	if len(shown) <= maxLabel {
		return shown
	}
	sum := sha256.Sum256([]byte(s))
	return shown[:maxLabel-17] + "~" + hex.EncodeToString(sum[:8])
}

// encodePrintable percent-encodes bytes that are not plain ASCII; keys hold such bytes only in paths.
func encodePrintable(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

type AccessLogStats struct {
	Lines     uint64 `metric:"hotparam_accesslog_lines_total" help:"Lines read."`
	TooLong   uint64 `metric:"hotparam_accesslog_too_long_total" help:"Lines not read because they are too long."`
	Malformed uint64 `metric:"hotparam_accesslog_malformed_total" help:"Malformed lines."`
	Skipped   uint64 `metric:"hotparam_accesslog_skipped_total" help:"Empty lines and comments."`
	// UnknownCosts counts requests of rules with a cost before any line of the rule had the cost.
	UnknownCosts uint64 `metric:"hotparam_accesslog_unknown_costs_total" help:"Requests not counted because no line of their rule, which counts by cost, had the cost before."`
	Errors       uint64 `metric:"hotparam_accesslog_errors_total" help:"Failures to open or read a log."`
	Rejected     uint64 `metric:"hotparam_accesslog_rejected_total" help:"Datagrams and connections of syslog that were rejected: from addresses that are not in accesslog.syslog_allow, or too many connections."`
}

type ListenerStats struct {
	Listeners   map[string]listener.Stats `label:"listener"`
	MemoryLimit int64                     `metric:"hotparam_memory_limit_bytes" help:"Memory that the process may use: GOMEMLIMIT, or the memory of the container or machine. 0: unknown."`
}

// GatewayStats counts the gateways that a limiter refuses, by listener.
type GatewayStats struct {
	Refused map[string]int `metric:"hotparam_gateways_refused" label:"listener" help:"Addresses of gateways that were rejected in the last minute because their token was missing or wrong. They receive no verdicts."`
}

// SecretFileStats reports which files of tokens can be used, by setting.
type SecretFileStats struct {
	Valid map[string]bool `metric:"hotparam_token_file_valid" label:"setting" help:"1, or 0 while a file of tokens cannot be used and the previous tokens stay valid."`
}

// ReloadStats records the result of the last reload of the configuration. The start counts as a reload.
type ReloadStats struct {
	Success   bool  `metric:"hotparam_config_reload_success" help:"1, or 0 while the last change of the configuration is rejected and the previous rules stay in force."`
	Timestamp int64 `metric:"hotparam_config_reload_timestamp_seconds" help:"Time at which a configuration was last applied, in unix seconds."`
	// Hash is the number that all programs of a fleet must have in common: the first 48 bits of the SHA-256 of the file
	// in force, or 0 without a file.
	Hash int64 `metric:"hotparam_config_reload_hash" help:"Hash of the configuration file in force, as a number. 0: no file."`
}

type RulesStats struct {
	Version      int64 `metric:"hotparam_rules_version" help:"Version of the rules in force, by the central store. 0: the rules come from a file."`
	Stored       int64 `metric:"hotparam_rules_stored_version" help:"Version of the rules last read from the central store."`
	Rejected     bool  `metric:"hotparam_rules_rejected" help:"1 while rules in the central store are rejected and the previous rules stay in force."`
	Behind       bool  `metric:"hotparam_rules_behind" help:"1 while the central store has lost the rules that are in force."`
	StoreFailing bool  `metric:"hotparam_rules_store_failing" help:"1 while the central store of rules does not answer or is empty."`
	CopyFailing  bool  `metric:"hotparam_rules_copy_failing" help:"1 while no copy of the central rules is kept on disk."`
}
