package counters

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

// start is the wall time at which a trace begins.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Hotparam is the detector of this project, as the aggregator runs it, without the time in which a key cools.
type Hotparam struct {
	detector *detect.Detector
	batch    []hottype.Count
}

const hotparamRule = `
rules:
  - {name: item, match: {path: /item}, params: [id], hot: {rate: %g, window: 5s, max_hot: 1000, release_ratio: 1, cooldown: 0s}}
`

// NewHotparam returns the detector with a rule for keys such as "item?id=1".
func NewHotparam(c Config) *Hotparam {
	// Package detect takes at most 200 bytes a counter. A third more is for the keys that are hot or nearly so.
	const bytesCounter = 267
	set, err := rules.Parse("bench.yaml", fmt.Appendf(nil, hotparamRule, float64(c.Hot)/slots))
	if err != nil {
		panic(err) // a mistake of this package
	}
	return &Hotparam{detector: detect.New(set, detect.Options{Counters: max(c.Budget/bytesCounter, 16)})}
}

// Add passes the requests on as counts of their seconds, in batches as a packet or record has them.
func (h *Hotparam) Add(requests []Request) {
	for part := range slices.Chunk(requests, 256) {
		h.batch = h.batch[:0]
		for _, r := range part {
			h.batch = append(h.batch, hottype.Count{Key: hottype.Key(r.Key), N: 1, Second: start.Unix() + r.At/second})
		}
		h.detector.AddAll(start.Add(time.Duration(part[len(part)-1].At)*time.Millisecond), h.batch)
	}
}

// Hot judges at the last moment before now, so that the end of a second is judged with all its counts.
func (h *Hotparam) Hot(now int64, to []Count) []Count {
	set, _ := h.detector.Tick(start.Add(time.Duration(now)*time.Millisecond - 1))
	for i := range set.Keys {
		to = append(to, Count{string(set.Keys[i].Key), math.Round(set.Keys[i].Rate * slots)})
	}
	return to
}
