package aggregate

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

const maxKey = 200

// changeLog logs the keys that became hot or a loop, and the keys that ceased to be: the reason of a load, or of a
// denial. Any client can make keys hot; the program's logger bounds the lines, and events and history have all changes.
type changeLog struct {
	log   *slog.Logger
	rules func() *rules.Set // returns the rules in force
}

func (l changeLog) logChanges(changes []detect.Change) {
	if !l.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	for i := range changes {
		l.logChange(&changes[i])
	}
}

func (l changeLog) logChange(c *detect.Change) {
	h := &c.Hot
	lasted := []any{
		"key", shortKey(h.Key), "rule", h.Rule,
		"for", c.At.Sub(h.Since).Round(time.Millisecond), "peak", rateOf(h, h.PeakRate),
	}
	who := []any{
		"key", shortKey(h.Key), "rule", h.Rule, "rate", rateOf(h, h.Rate), "threshold", l.thresholdOf(h.Rule),
		"why", h.Why,
		"clients", "unknown",
	}
	if h.Clients > 0 {
		who = append(who[:len(who)-1], h.Clients)
	}
	// The rate that reached the threshold may be over by now, because counts come late, and an aggregator that takes
	// over a partition reads the counts of the last seconds again.
	if h.Rate < h.PeakRate {
		who = append(who, "peak", rateOf(h, h.PeakRate))
	}
	if h.HeaviestClient != "" {
		who = append(who, "client", h.HeaviestClient, "client_share", h.ClientShare)
	}
	switch {
	case c.Kind == detect.BecameHot:
		l.log.Info("aggregate: a key became hot", who...)
	case c.Kind == detect.LoopBegan:
		l.log.Info("aggregate: a loop: one or a few clients take the key over its threshold; "+
			"it is not limited, its clients are if the rules limit clients (ip)", who...)
	case c.Kind == detect.LoopEnded:
		l.log.Info("aggregate: the loop has ended", lasted...)
	case c.Displaced:
		l.log.Info("aggregate: a hot key lost its place to heavier ones (max_hot)", lasted...)
	default:
		l.log.Info("aggregate: a key is cold again", lasted...)
	}
}

func (l changeLog) thresholdOf(rule string) string {
	for _, r := range l.rules().Rules {
		if r.Name == rule {
			return r.DescribeHot()
		}
	}
	return ""
}

// shortKey returns a key for the log, which quotes bytes that are not printable.
func shortKey(key hottype.Key) string {
	if len(key) <= maxKey {
		return string(key)
	}
	return strings.ToValidUTF8(string(key[:maxKey]), "") + "…"
}

// rateOf returns a rate of a key for the log: a number of requests a second, or a text with the unit of another cost.
func rateOf(h *hottype.HotKey, rate float64) any {
	if h.Cost.IsRequests() {
		return roundToTenths(rate)
	}
	return h.Cost.FormatRate(rate)
}

func roundToTenths(rate float64) float64 { return math.Round(rate*10) / 10 }
