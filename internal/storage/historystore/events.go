package historystore

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

// A record may begin or end a span.
const (
	noStep byte = iota
	beginsSpan
	endsSpan
)

// record is an event, a step of a span, or both. Kind is empty in a step without an event.
type record struct {
	history.Event
	step byte
}

func encodeRecord(r *record) []byte {
	b := binary.AppendVarint(nil, r.At.UnixMilli())
	b = append(appendText(appendText(appendText(b, r.Kind), r.Key), string(r.Detail)), r.step)
	if r.step == noStep {
		return b
	}
	s := r.Span
	b = appendText(appendState(appendText(b, string(s.Key)), s.State, s.Cost), s.Rule)
	until := int64(0)
	if !s.Until.IsZero() {
		until = s.Until.UnixMilli()
	}
	return appendFloats(binary.AppendVarint(binary.AppendVarint(b, s.From.UnixMilli()), until), s.Peak)
}

func decodeRecord(payload []byte) (record, error) {
	c := cursor{rest: payload}
	r := record{Event: history.Event{At: c.readMillis(), Kind: string(c.readText()), Key: string(c.readText()),
		Detail: json.RawMessage(slices.Clone(c.readText()))}}
	if r.step = c.readByte(); r.step != noStep {
		s := &history.Span{Key: hottype.Key(c.readText())}
		state, cost := c.readState()
		s.State, s.Cost, s.Rule, s.From = state, hottype.Cost(cost), string(c.readText()), c.readMillis()
		if until := c.readVarint(); until != 0 {
			s.Until = time.UnixMilli(until).UTC()
		}
		s.Peak = c.readFloat()
		r.Span = s
		c.bad = c.bad || r.step > endsSpan
	}
	return r, c.checkEnd()
}
