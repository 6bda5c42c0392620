package main

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// live lets the events of a clock happen in real time. Requests are sent by goroutines, whose replies are events too,
// so clients and tallies belong to the goroutine of run.
type live struct {
	*clock
	client  *http.Client
	replies chan func()
	open    int   // requests without a reply
	fault   error // of programs that did not start
}

func newLive() *live {
	return &live{clock: new(clock), replies: make(chan func()), client: &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1000, MaxConnsPerHost: 1000, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// run lets all events happen that are planned before end, and returns when all requests have a reply. An event that is
// late happens with the time for which it was planned: so clients keep their rates, and a request that a busy machine
// sent late counts as slow.
func (l *live) run(ctx context.Context, end time.Duration) error {
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for l.open > 0 || len(l.events) > 0 && l.events[0].at < end {
		next := end
		if len(l.events) > 0 {
			next = min(next, l.events[0].at)
		}
		if wait := next - time.Since(began); wait > 0 || next == end {
			timer.Reset(max(wait, time.Millisecond))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case reply := <-l.replies:
				l.open--
				l.now = time.Since(began)
				reply()
			case <-timer.C:
			}
			continue
		}
		e := heap.Pop(&l.events).(event)
		l.now = e.at
		e.do()
	}
	l.now = end
	return l.fault
}

// send sends a request of a client to a server, and calls done when there is a reply.
func (l *live) send(server string, c *client, random *rand.Rand, done func(reply)) {
	req, err := http.NewRequest(http.MethodGet, server+target(random), nil)
	if err != nil {
		panic(err) // this program has made the address
	}
	req.Header = c.header.Clone()
	req.Header.Set("X-Forwarded-For", c.address.String())
	req.Header.Set("Accept", "text/html")
	l.await(func() reply { return l.fetch(req) }, done)
}

// await calls work in a goroutine, and then done by an event.
func (l *live) await(work func() reply, done func(reply)) {
	l.open++
	go func() {
		r := work()
		l.replies <- func() { done(r) }
	}()
}

// fetch sends a request and reads the whole reply.
func (l *live) fetch(req *http.Request) (r reply) {
	r.outcome = failed
	resp, err := l.client.Do(req)
	if err != nil {
		return r
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	switch {
	case err == nil && resp.StatusCode == http.StatusOK:
		r.outcome = answered
	case resp.StatusCode == http.StatusTooManyRequests:
		n, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 if the field is missing
		r.outcome, r.retryAfter = refused, seconds(n)
		r.cookie, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	}
	return r
}

// sleepingUpstream is the upstream of real programs: the same queue and workers, which sleep.
type sleepingUpstream struct {
	workers chan struct{}
}

func newSleepingUpstream() *sleepingUpstream {
	return &sleepingUpstream{workers: make(chan struct{}, workers)}
}

func (u *sleepingUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	give := time.NewTimer(patience)
	defer give.Stop()
	select {
	case u.workers <- struct{}{}:
	case <-give.C:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case <-r.Context().Done():
		return
	}
	defer func() { <-u.workers }()
	time.Sleep(time.Duration(float64(service) * (1 - spread + 2*spread*rand.Float64())))
	fmt.Fprintln(w, "page")
}
