package main

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/keilerkonzept/topk/sliding"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/detection/window"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	windowSeconds = 5
	perSecond     = 250_000 // updates in a second of the traffic's own time
	ticks         = 10      // judgements in a second
	peer          = "keilerkonzept/topk v1.1.4, sliding"
)

// start is the time at which traffic begins. Time is the traffic's own, and nothing waits.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// counter is a contender. add adds counts at a time. judge is called ten times a second.
type counter interface {
	add(now time.Time, counts []hottype.Count)
	judge(now time.Time)
}

// detector is hotparam as the aggregator runs it.
type detector struct{ *detect.Detector }

const topicRule = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: %d, window: 5s, max_hot: 1000}}
`

// newDetector returns a detector that calls a key hot that comes 200 times a second with that weight.
func newDetector(weight int64, counters int) (detector, error) {
	set, err := rules.Parse("bench.yaml", fmt.Appendf(nil, topicRule, 200*weight))
	if err != nil {
		return detector{}, err
	}
	return detector{detect.New(set, detect.Options{Counters: counters})}, nil
}

func (d detector) add(now time.Time, counts []hottype.Count) { d.AddAll(now, counts) }
func (d detector) judge(now time.Time)                       { d.Tick(now) }
func (d detector) error() int64                              { return d.Stats().Error }

// alone is the window without the judgement, one key after the other.
type alone struct {
	*window.Counter
	seed maphash.Seed
}

func newAlone() *alone {
	return &alone{window.New(window.Config{Window: windowSeconds}, start.Unix()), maphash.MakeSeed()}
}

func (a *alone) add(_ time.Time, counts []hottype.Count) {
	for i := range counts {
		a.Add(maphash.String(a.seed, string(counts[i].Key)), string(counts[i].Key), counts[i].Second, counts[i].N)
	}
}
func (a *alone) judge(now time.Time) { a.Advance(now.Unix(), nil) }
func (a *alone) error() int64        { return a.Error() }

// sketch is the peer: slots of a second, 3 x 8192 buckets, the top 1000.
type sketch struct {
	*sliding.Sketch
	second int64
}

func newSketch() *sketch {
	return &sketch{Sketch: sliding.New(1000, windowSeconds, sliding.WithWidth(8192), sliding.WithDepth(3)),
		second: start.Unix()}
}

func (s *sketch) add(_ time.Time, counts []hottype.Count) {
	for i := range counts {
		s.Add(string(counts[i].Key), uint32(counts[i].N))
	}
}

// judge advances to the present second. The sketch knows its top keys at any time.
func (s *sketch) judge(now time.Time) {
	if n := now.Unix() - s.second; n > 0 {
		s.Ticks(int(n))
		s.second = now.Unix()
	}
}

// hashing does only the work that all contenders have to do: fetch the key from memory and hash it.
type hashing struct {
	seed maphash.Seed
	sum  uint64
}

func (h *hashing) add(_ time.Time, counts []hottype.Count) {
	for i := range counts {
		h.sum += maphash.String(h.seed, string(counts[i].Key))
	}
}
func (h *hashing) judge(time.Time) {}
