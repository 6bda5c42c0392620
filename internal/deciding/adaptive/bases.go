package adaptive

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

const (
	// maxBaseAge is the age from which a stored base latency is not used, because the upstream may have changed.
	maxBaseAge = 7 * 24 * time.Hour
	// maxBase is the greatest latency in seconds that is a base.
	maxBase = 600
	// baseDrift is the relative change of a base from which it is stored again, and baseRenewal the age.
	baseDrift   = 0.1
	baseRenewal = time.Hour
)

// base is the base latency of an upstream as it is stored.
type base struct {
	Seconds  float64   `json:"seconds"`
	Quantile float64   `json:"quantile"`
	At       time.Time `json:"at"` // when it was last known
}

func (b *base) isValid() bool {
	return b.Seconds > 0 && b.Seconds <= maxBase && b.Quantile > 0 && b.Quantile < 1
}

// RestoreBases sets the base latencies of the controllers to the latencies in text, which EncodeBases wrote, so that
// they need no probe. A controller that knows its base keeps it. Bases that are older than seven days are ignored.
func (c *Controllers) RestoreBases(now time.Time, text []byte) error {
	var stored map[string]base
	if err := json.Unmarshal(text, &stored); err != nil {
		return fmt.Errorf("adaptive: base latencies: %w", err)
	}
	for name, b := range stored {
		if !b.isValid() {
			return fmt.Errorf("adaptive: base latencies: %q: %v seconds at the quantile %v", name, b.Seconds, b.Quantile)
		}
		if age := now.Sub(b.At); age > maxBaseAge || age < -maxBaseAge {
			delete(stored, name)
		}
	}
	c.bases = stored
	for name, one := range c.of {
		c.restoreBase(name, one)
	}
	return nil
}

// restoreBase sets the base latency of a controller to the stored latency, unless the controller knows its own.
func (c *Controllers) restoreBase(name string, one *upstreamState) {
	if b, ok := c.bases[name]; ok && !one.known && one.probeTicks == 0 && b.Quantile == one.Controller.target.Quantile {
		one.setBase(b.Seconds)
	}
}

// EncodeBases returns the base latencies of all upstreams as text, or nil if they have hardly changed since the last
// call that returned a text, or since RestoreBases.
func (c *Controllers) EncodeBases(now time.Time) []byte {
	changed := false
	for name, one := range c.of {
		seconds, known := one.base()
		next := base{seconds, one.Controller.target.Quantile, now}
		if !known || one.Controller.target.Latency > 0 || !next.isValid() {
			continue
		}
		last := c.bases[name]
		if math.Abs(seconds-last.Seconds) <= baseDrift*last.Seconds && last.Quantile == next.Quantile &&
			now.Sub(last.At) < baseRenewal {
			continue
		}
		if c.bases == nil {
			c.bases = map[string]base{}
		}
		c.bases[name], changed = next, true
	}
	if !changed {
		return nil
	}
	text, _ := json.Marshal(c.bases) // numbers, names and times of a year with four digits can be encoded
	return text
}
