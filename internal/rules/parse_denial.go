package rules

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// queue gives a leaky bucket nginx's meaning of delay and nodelay: that many of
// the burst, or all of it, go on at once. What goes on at once is not a queue but
// GCRA, and the rest of the burst waits as long as it takes.
func (a *amounts) queue(s *limit.Spec, v value) {
	waits := s.Burst - a.delay
	switch {
	case a.delay < 0 && !a.nodelay:
		return
	case a.delay >= 0 && a.nodelay:
		v.fail("nodelay and delay exclude each other")
		return
	case waits < 0:
		v.fail("delay %d is more than the burst, %d", a.delay, s.Burst)
		return
	}
	s.Algorithm = limit.GCRA
	if a.nodelay || waits == 0 {
		return
	}
	each := (s.Window + time.Duration(s.Limit) - 1) / time.Duration(s.Limit)
	if time.Duration(waits) > maxWait/each {
		v.fail("%d calls at %d per %v would wait for more than %v", waits, s.Limit, s.Window, maxWait)
		return
	}
	s.Burst, s.Wait = a.delay, (time.Duration(waits)*each + time.Microsecond - 1).Truncate(time.Microsecond)
}

// bursty is Guava's RateLimiter.create(rate), its SmoothBursty. It is no
// limit.Algorithm: for calls that cost 1 it is a token bucket.
//
// Guava stores permits that nobody takes, those of one second (burst), from 0 on. Who
// asks takes what is stored, and one more that has not come yet: the next call waits for
// it (resync, reserveEarliestAvailable in SmoothRateLimiter). That one more is the
// difference between what it stores and the capacity of a bucket.
const bursty limit.Algorithm = "bursty"

// store makes a token bucket of bursty.
func (a *amounts) store(s *limit.Spec, got map[string]value) {
	if _, ok := got["burst"]; !ok {
		s.Burst = a.rate.burst()
	}
	s.Algorithm, s.InitialDeficit, s.Burst = limit.TokenBucket, s.Burst, s.Burst+1
}

// denial are the fields that say what becomes of who is denied, or held back.
type denial struct{ wait, block, blockMax time.Duration }

// maxWait is the longest time that a request is held back, and maxBlock the
// longest block.
const (
	maxWait  = time.Minute
	maxBlock = 24 * time.Hour
)

func (m *denial) fields(fs fields) {
	fs["wait"] = func(v value) { m.wait = v.duration(0, maxWait, time.Millisecond) }
	m.blocks(fs)
}

// blocks are those that every limit has.
func (m *denial) blocks(fs fields) {
	fs["block"] = func(v value) { m.block = v.duration(0, maxBlock, time.Millisecond) }
	fs["block_max"] = func(v value) { m.blockMax = v.duration(0, maxBlock, time.Millisecond) }
}

// candidate reads a limit that is judged beside the live one and never acts.
func (v value) candidate() *limit.Spec {
	a := amounts{delay: -1}
	algorithm := algorithms[0].Name
	fs := a.fields()
	fs["algorithm"] = func(v value) { algorithm = v.algorithm() }
	a.denial.fields(fs)
	got := v.mapping(fs)
	if algorithm == "" {
		return nil
	}
	s := a.spec(v, got, algorithm)
	return &s
}
