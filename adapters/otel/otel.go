// Package hotparamotel reports a pipeline's statistics to OpenTelemetry: requests counted, allowed and denied, hot keys
// by rule, the response cache, and the state of upstreams with adaptive limits.
//
//	registration, err := hotparamotel.Register(otel.Meter("news"), p.Stats)
//	defer registration.Unregister()
//
// The statistics are read once for each collection. Attributes are the rule, the reason of a denial and the upstream.
// All are bounded: operators name rules, and hotparam.would_deny has at most a thousand values. Keys are not
// attributes, because clients choose them.
package hotparamotel

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

// counter is a sum that only grows.
type counter struct {
	name, unit, help string
	read             func(s *hotparam.Stats) uint64
}

const requests = "{request}"

// counters are the sums without attributes.
var counters = []counter{
	{"hotparam.counted", requests, "Requests counted, once for each of their keys.",
		func(s *hotparam.Stats) uint64 { return s.Counted }},
	{"hotparam.delivered", requests, "Counted requests whose counts reached the detection.",
		func(s *hotparam.Stats) uint64 { return s.Delivered }},
	{"hotparam.dropped", requests, "Counted requests whose counts were lost.",
		func(s *hotparam.Stats) uint64 { return s.Dropped }},
	{"hotparam.allowed", requests, "Requests that passed.",
		func(s *hotparam.Stats) uint64 { return s.Allowed }},
	{"hotparam.would_deny_ip", requests, "Requests that passed and that a window of their client in shadow mode would have denied.",
		func(s *hotparam.Stats) uint64 { return s.WouldDenyIP }},
	{"hotparam.store.errors", "{call}", "Calls to Redis that failed or took too long.",
		func(s *hotparam.Stats) uint64 { return s.Health.StoreErrors }},
	{"hotparam.panics", requests, "Requests that passed because their decision panicked.",
		func(s *hotparam.Stats) uint64 { return s.Panics }},
	{"hotparam.cache.hits", requests, "Requests answered with a fresh response from the cache.",
		func(s *hotparam.Stats) uint64 { return s.Cache.Hits }},
	{"hotparam.cache.stale", requests, "Requests answered with a stale response from the cache.",
		func(s *hotparam.Stats) uint64 { return s.Cache.Stale }},
	{"hotparam.cache.fetches", requests, "Requests by the cache to the handler.",
		func(s *hotparam.Stats) uint64 { return s.Cache.Fetched }},
}

// gauges are the gauges without attributes.
var gauges = []struct {
	name, unit, help string
	read             func(h *hotparam.Health) float64
}{
	{"hotparam.running", "1", "1 while Pipeline.Run runs; without it no key becomes hot.",
		func(h *hotparam.Health) float64 { return boolValue(h.Running) }},
	{"hotparam.hotset.age", "s", "Age of the newest hot set; negative before the first.",
		func(h *hotparam.Health) float64 { return h.HotSetAge.Seconds() }},
	{"hotparam.publishers", "{aggregator}", "Aggregators that publish hot sets.",
		func(h *hotparam.Health) float64 { return float64(h.Publishers) }},
	{"hotparam.publishers.no_input", "{aggregator}", "Aggregators that publish and receive no counts.",
		func(h *hotparam.Health) float64 { return float64(h.NoInputPublishers) }},
	{"hotparam.publishers.stale", "{aggregator}", "Aggregators that stopped publishing without notice.",
		func(h *hotparam.Health) float64 { return float64(h.StalePublishers) }},
	{"hotparam.counts.down", "1", "1 while counts cannot be sent or do not arrive.",
		func(h *hotparam.Health) float64 { return boolValue(h.CountsDown) }},
	{"hotparam.counts.lost", "1", "Share of the counts of the last 3 s that did not arrive; -1 while unknown.",
		func(h *hotparam.Health) float64 { return h.CountsLost }},
	{"hotparam.store.open", "1", "1 while a circuit breaker prevents calls to Redis and limits are local to this process.",
		func(h *hotparam.Health) float64 { return boolValue(h.StoreOpen) }},
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// instruments are the registered instruments; observe records their values.
type instruments struct {
	counters                          []metric.Int64ObservableCounter // in the order of the list counters
	gauges                            []metric.Float64ObservableGauge // in the order of the list gauges
	denied, wouldDeny                 metric.Int64ObservableCounter
	hotKeys, cacheBytes               metric.Int64ObservableGauge
	hotRate, hotCost, rate, unreached metric.Float64ObservableGauge
}

// Register makes the meter observe these statistics, such as Pipeline.Stats, until the registration is unregistered. It
// returns an error if m or stats is nil or the meter rejects an instrument.
func Register(m metric.Meter, stats func() hotparam.Stats) (metric.Registration, error) {
	if m == nil || stats == nil {
		return nil, errors.New("hotparamotel: the meter or the statistics are nil: pass otel.Meter(…) and Pipeline.Stats")
	}
	var all []metric.Observable
	var failed error
	int64Gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		all, failed = append(all, g), errors.Join(failed, err)
		return g
	}
	gauge := func(name, unit, help string) metric.Float64ObservableGauge {
		g, err := m.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		all, failed = append(all, g), errors.Join(failed, err)
		return g
	}
	count := func(name, unit, help string) metric.Int64ObservableCounter {
		c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
		all, failed = append(all, c), errors.Join(failed, err)
		return c
	}
	in := instruments{
		denied: count("hotparam.denied", requests, "Requests denied, by reason."),
		wouldDeny: count("hotparam.would_deny", requests, "Requests that passed and that something in shadow mode would "+
			"have denied, by the rule, window or override that would have denied first."),
		hotKeys: int64Gauge("hotparam.hot.keys", "{key}", "Keys that are hot, by rule."),
		hotRate: gauge("hotparam.hot.rate", "{request}/s", "Requests a second of a rule's hot keys together, by rule."),
		hotCost: gauge("hotparam.hot.cost", "1", "Cost a second of the hot keys of a rule that counts a cost, in seconds of "+
			"time, bytes, or the number in a field of the response, by rule and cost."),
		cacheBytes: int64Gauge("hotparam.cache.size", "By", "Bytes of all answers in the cache."),
		rate: gauge("hotparam.upstream.rate", "{request}/s",
			"Requests a second that hot keys with adaptive limits may send to an upstream."),
		unreached: gauge("hotparam.upstream.unreachable", "1",
			"1 while an upstream misses its target even with the least rate."),
	}
	for _, c := range counters {
		in.counters = append(in.counters, count(c.name, c.unit, c.help))
	}
	for _, g := range gauges {
		in.gauges = append(in.gauges, gauge(g.name, g.unit, g.help))
	}
	if failed != nil {
		return nil, fmt.Errorf("hotparamotel: the meter rejects an instrument: %w", failed)
	}
	return m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := stats()
		in.observeStats(to, &s)
		return nil
	}, all...)
}

func (in *instruments) observeStats(to metric.Observer, s *hotparam.Stats) {
	for i, c := range counters {
		to.ObserveInt64(in.counters[i], clampInt64(c.read(s)))
	}
	for i, g := range gauges {
		to.ObserveFloat64(in.gauges[i], g.read(&s.Health))
	}
	for reason, n := range s.DeniedBy {
		to.ObserveInt64(in.denied, clampInt64(n), metric.WithAttributes(attribute.Stringer("reason", reason)))
	}
	for rule, n := range s.WouldDenyBy {
		to.ObserveInt64(in.wouldDeny, clampInt64(n), metric.WithAttributes(attribute.String("rule", rule)))
	}
	type unit struct {
		rule string
		cost hottype.Cost
	}
	keys, rates := map[string]int64{}, map[unit]float64{}
	for _, h := range s.Hot {
		keys[h.Rule]++
		rates[unit{h.Rule, h.Cost}] += h.Rate
	}
	for rule, n := range keys {
		to.ObserveInt64(in.hotKeys, n, metric.WithAttributes(attribute.String("rule", rule)))
	}
	for of, rate := range rates {
		rule := attribute.String("rule", of.rule)
		if of.cost.IsRequests() {
			to.ObserveFloat64(in.hotRate, rate, metric.WithAttributes(rule))
		} else {
			to.ObserveFloat64(in.hotCost, rate, metric.WithAttributes(rule, attribute.String("cost", string(of.cost))))
		}
	}
	to.ObserveInt64(in.cacheBytes, s.Cache.Bytes)
	for _, u := range s.Upstreams {
		by := metric.WithAttributes(attribute.String("upstream", u.Name))
		to.ObserveFloat64(in.rate, u.Rate, by)
		to.ObserveFloat64(in.unreached, boolValue(u.Unreachable), by)
	}
}

// clampInt64 converts a count to OpenTelemetry's type, at most math.MaxInt64.
func clampInt64(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
