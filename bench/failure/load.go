package main

import (
	"context"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// sample is one decision. Its goroutine writes it, and then sets back.
type sample struct {
	due, began, ended time.Duration // since the load began
	back              atomic.Bool
	hot, allowed      bool
	byRedis           bool
	gate              int8
}

// load makes decisions by a timetable until it is stopped.
type load struct {
	began   time.Time
	samples []sample
	used    int // number of samples
	peak    int // largest number of goroutines
	out     sync.WaitGroup
}

// newLoad returns a load with room for all decisions of d.
func newLoad(rate int, d time.Duration) *load {
	return &load{samples: make([]sample, int(d.Seconds()*float64(rate)))}
}

// run makes decisions until ctx ends.
func (l *load) run(ctx context.Context, rate int, all []*sidecar) {
	requests := requests()
	every := time.Second / time.Duration(rate)
	l.began = time.Now()
	for i := range l.samples {
		s := &l.samples[i]
		s.due = time.Duration(i) * every
		if early := s.due - time.Since(l.began); early > 0 {
			time.Sleep(early)
		}
		if ctx.Err() != nil {
			return
		}
		if i%16 == 0 {
			l.peak = max(l.peak, runtime.NumGoroutine())
		}
		s.hot, s.gate = i%5 == 0, int8(i/5%gates)
		request := &requests[i%len(requests)]
		l.out.Go(func() { l.ask(s, all[s.gate], request) })
		l.used = i + 1
	}
}

func (l *load) ask(s *sample, by *sidecar, r *hottype.Request) {
	now := time.Now()
	s.began = now.Sub(l.began)
	v := by.gate.Decide(context.Background(), now, r)
	s.ended = time.Since(l.began)
	s.allowed = v.Allowed
	s.byRedis = v.Limit == burst || v.Limit == window // a gate's share is less
	s.back.Store(true)
}

// requests returns requests of all clients: every fifth is for the hot key, whose clients alternate too.
func requests() []hottype.Request {
	list := make([]hottype.Request, 5*clients)
	for i := range list {
		target := "/other"
		if i%5 == 0 {
			target = "/topic?id=42&lang=en"
		}
		c := i % clients
		list[i] = hottype.Request{
			Method: http.MethodGet, Host: "news.example", Target: target, Header: http.Header{},
			Client: hottype.ClientFromAddr(netip.AddrFrom4([4]byte{192, 0, byte(2 + c/250), byte(c % 250)})),
		}
	}
	return list
}
