package live

import (
	"encoding/json"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// heaviestEvery is how many samples apart the keys that are not hot are read.
const heaviestEvery = 10

// heaviest are the keys with the greatest rates, hot or not, in some samples. Only one sample is taken
// at a time.
func (s *Service) heaviest() []hottype.HotKey {
	if s.samples++; s.cfg.Heaviest == nil || s.samples%heaviestEvery != 1 {
		return nil
	}
	return s.cfg.Heaviest(s.cfg.HistoryKeys)
}

// recordSecond hands a second to the history. The caller holds mu.
func (s *Service) recordSecond(now time.Time, hot, loops, heaviest []hottype.HotKey) {
	if s.cfg.History == nil {
		return
	}
	sp := s.rates.now(now)
	second := &history.Second{At: now, Allowed: sp.Allowed, DeniedBy: map[string]float64{}}
	for r := range (hottype.Denials{}).All() {
		second.DeniedBy[r.String()] = sp.Denied[r]
		second.Denied += sp.Denied[r]
	}
	known := map[hottype.Key]bool{}
	add := func(list []hottype.HotKey, state string) {
		for _, h := range list[:min(len(list), s.cfg.HistoryKeys)] {
			if known[h.Key] {
				continue
			}
			known[h.Key] = true
			k := sp.Keys[h.Key]
			second.Keys = append(second.Keys, history.KeySecond{
				Key: h.Key, Rule: h.Rule, State: state, Rate: h.Rate, Allowed: k.Allowed, Denied: k.Denied,
				Clients: h.Clients,
			})
		}
	}
	add(hot, history.Hot)
	add(loops, history.Loop)
	add(heaviest, history.Cold)
	s.cfg.History.Second(second)
}

// recordChange hands a change to the history.
func (s *Service) recordChange(c *Change) {
	if s.cfg.History == nil {
		return
	}
	kept := *c
	kept.Seq = 0 // it numbers the changes of one process
	detail, err := json.Marshal(kept)
	if err != nil {
		s.cfg.Log.Error("admin: a change cannot be written", "kind", c.Kind, "err", err)
		return
	}
	s.cfg.History.Event(history.Event{At: c.At, Kind: c.Kind, Key: c.Key, Detail: detail, Span: spanOf(c)})
}

// spanOf is the span that a change begins or ends, nil for others.
func spanOf(c *Change) *history.Span {
	span := &history.Span{Key: hottype.Key(c.Key), Rule: c.Rule, State: history.Hot, Peak: c.Rate}
	switch c.Kind {
	case BecameLoop, CeasedLoop:
		span.State = history.Loop
	case BecameHot, Cooled:
	default:
		return nil
	}
	if c.Kind == BecameHot || c.Kind == BecameLoop {
		span.From = c.At
	} else {
		span.Until = c.At
	}
	return span
}
