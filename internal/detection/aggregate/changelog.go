package aggregate

import (
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

// The log has so many lines about keys in an interval at most. Events and
// history have all changes.
const (
	logInterval = 10 * time.Second
	maxLogged   = 20
	maxKey      = 200 // bytes of a key
)

// changeLog says which keys became hot or a loop, and which are so no more: who
// looks for the reason of a load, or of a refusal, finds it in the log. It is
// bounded, because any client can make keys hot. Not for concurrent
// use.
type changeLog struct {
	log        *slog.Logger
	rules      func() *rules.Set // those that are in force
	began      time.Time         // the interval
	logged     int               // lines in it
	suppressed map[detect.Kind]int
}

func newChangeLog(log *slog.Logger, set func() *rules.Set) *changeLog {
	return &changeLog{log: log, rules: set, suppressed: map[detect.Kind]int{}}
}

// note logs changes, and at the end of an interval how many it has not logged.
func (l *changeLog) note(now time.Time, changes []detect.Change) {
	if since := now.Sub(l.began); since < 0 || since >= logInterval {
		l.logSuppressed()
		l.began, l.logged = now, 0
	}
	for i := range changes {
		if l.logged >= maxLogged {
			l.suppressed[changes[i].Kind]++
			continue
		}
		l.logged++
		l.logChange(&changes[i])
	}
}

// logSuppressed says how many changes were not logged one by one.
func (l *changeLog) logSuppressed() {
	if len(l.suppressed) == 0 {
		return
	}
	l.log.Info("aggregate: further keys became hot or cold, too many to log each",
		"hot", l.suppressed[detect.BecameHot], "cold", l.suppressed[detect.Cooled],
		"loops", l.suppressed[detect.LoopBegan], "loops_ended", l.suppressed[detect.LoopEnded])
	clear(l.suppressed)
}

// logChange logs one change.
func (l *changeLog) logChange(c *detect.Change) {
	h := &c.Hot
	lasted := []any{
		"key", short(h.Key), "rule", h.Rule,
		"for", c.At.Sub(h.Since).Round(time.Millisecond), "peak", tenths(h.Peak),
	}
	who := []any{
		"key", short(h.Key), "rule", h.Rule, "rate", tenths(h.Rate), "threshold", l.threshold(h.Rule), "why", h.Criteria,
		"clients", h.Clients, "client", h.Client, "client_share", h.ClientShare,
	}
	switch {
	case c.Kind == detect.BecameHot:
		l.log.Info("aggregate: a key became hot", who...)
	case c.Kind == detect.LoopBegan:
		l.log.Info("aggregate: a loop: one or a few clients take the key over its threshold; "+
			"it is not limited, its clients are by their own limits", who...)
	case c.Kind == detect.LoopEnded:
		l.log.Info("aggregate: the loop has ended", lasted...)
	case c.Displaced:
		l.log.Info("aggregate: a hot key lost its place to heavier ones (max_hot)", lasted...)
	default:
		l.log.Info("aggregate: a key is cold again", lasted...)
	}
}

// threshold says when a key of a rule is hot.
func (l *changeLog) threshold(rule string) string {
	for _, r := range l.rules().Rules {
		if r.Name == rule {
			return r.Hot.String()
		}
	}
	return ""
}

// short is a key for the log, which quotes what is not printable.
func short(key hottype.Key) string {
	if len(key) <= maxKey {
		return string(key)
	}
	return strings.ToValidUTF8(string(key[:maxKey]), "") + "…"
}

func tenths(rate float64) float64 { return math.Round(rate*10) / 10 }
