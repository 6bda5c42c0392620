package detect

import (
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/rules"
	"github.com/hotparam/pipeline/hotparam/window"
)

// Detector judges heat. Not for concurrent use.
type Detector struct {
	opts   Options
	now    time.Time // the latest heard of; zero before the first call
	second int64     // of now
	ticked time.Time // of the last Tick

	heats    []*heat // in the order of the rules
	byName   map[string]*heat
	catchAll *heat // nil: none

	// The rule of the last count, because counts come in runs.
	lastResource string
	lastHeat     *heat

	// gone are the changes that SetRules made, for the next Tick to tell.
	gone  []Change
	stats Stats
}

// New builds a Detector for a set of rules. It starts nothing.
func New(set *rules.Set, o Options) *Detector {
	d := &Detector{opts: o.withDefaults()}
	d.SetRules(set)
	return d
}

// Add places one count. It reports true exactly when this count lifted a key
// to its threshold that was not hot (nor cooling) before: the caller should
// Tick at once and publish. The Detector copies the keys that it keeps.
func (d *Detector) Add(now time.Time, c hotparam.Count) (crossed bool) {
	now = d.advance(now)
	h := d.heatOf(c.Key)
	if h == nil {
		d.stats.DroppedNoRule++
		return false
	}
	added := h.counts.Add(c.Key, c.Second, c.N)
	if added.Status != window.OK {
		d.drop(added.Status)
		return false
	}
	d.stats.Adds++
	d.stats.Newest = max(d.stats.Newest, c.Second)
	if c.Second > d.second && added.First {
		h.early[c.Second] = append(h.early[c.Second], c.Key)
	}
	return h.warm(c.Key, added.Sum, now)
}

// drop counts a count that was refused.
func (d *Detector) drop(s window.Status) {
	switch s {
	case window.Late:
		d.stats.DroppedLate++
	case window.Future:
		d.stats.DroppedFuture++
	case window.Full:
		d.stats.DroppedFull++
	default:
		d.stats.DroppedBad++
	}
}

// advance lets time pass until now, one second after the other, so that every
// count is judged in every second. It gives the time it is then: now, or a
// later one that was heard of before.
func (d *Detector) advance(now time.Time) time.Time {
	if second := now.Unix(); second != d.second || d.now.IsZero() {
		d.pass(now, second)
	}
	if now.After(d.now) {
		d.now = now
	}
	return d.now
}

// pass goes to another second.
func (d *Detector) pass(now time.Time, second int64) {
	span := d.span()
	if d.now.IsZero() || d.second-second > span {
		d.restart(second)
		d.now = now
		return
	}
	// After one whole span of silence nothing changes any more.
	quiet := d.second + span + 1
	for d.second < min(second, quiet) {
		d.turn(d.second + 1)
	}
	if d.second < second {
		d.turn(second)
	}
}

// turn begins the next second.
func (d *Detector) turn(second int64) {
	d.second = second
	for _, h := range d.heats {
		h.turn(second)
	}
}

// restart forgets all counts, at the first second or after the clock was found
// to have been wrong.
func (d *Detector) restart(second int64) {
	if !d.now.IsZero() {
		d.stats.ClockResets++
		d.stats.Newest = 0
	}
	d.second = second
	for _, h := range d.heats {
		h.restart(second, d.opts)
	}
}

// span is how many seconds any count can matter for.
func (d *Detector) span() int64 {
	longest := int64(1)
	for _, h := range d.heats {
		longest = max(longest, h.window)
	}
	return longest + seconds(d.opts.Future)
}

// Stats gives the counters.
func (d *Detector) Stats() Stats {
	st := d.stats
	for _, h := range d.heats {
		st.Keys += int64(h.counts.Len())
		st.Candidates += int64(len(h.candidates))
	}
	return st
}
