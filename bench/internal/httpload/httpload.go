// Package httpload sends requests to an HTTP/1.1 server over kept connections: as fast as it answers, or at a rate.
package httpload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Result holds the results of a load.
type Result struct {
	Requests int
	Took     time.Duration
	P50, P99 time.Duration
	Status   map[int]int // number of responses by status
}

// Run sends requests to addr over n connections for d. target returns the k-th target of connection i. Each request has
// the Host "bench" and no body.
func Run(addr string, n int, d time.Duration, target func(i, k int) string) (Result, error) {
	return run(addr, n, d, 0, target)
}

// Paced is Run with at most perSecond requests a second on all connections together. The time of a request begins when
// it was due, so that it includes the delay by a slow response before it.
func Paced(addr string, n int, d time.Duration, perSecond int, target func(i, k int) string) (Result, error) {
	return run(addr, n, d, time.Duration(n)*time.Second/time.Duration(perSecond), target)
}

func run(addr string, n int, d, interval time.Duration, target func(i, k int) string) (Result, error) {
	began := time.Now()
	all := make([]connection, n)
	var done sync.WaitGroup
	for i := range all {
		c := &all[i]
		c.interval, c.due = interval, began.Add(interval*time.Duration(i)/time.Duration(n))
		done.Go(func() { c.run(addr, began.Add(d), func(k int) string { return target(i, k) }) })
	}
	done.Wait()
	r := Result{Took: time.Since(began), Status: map[int]int{}}
	var times []time.Duration
	var faults []error
	for i := range all {
		times = append(times, all[i].times...)
		faults = append(faults, all[i].fault)
		for status, count := range all[i].status {
			r.Status[status] += count
		}
	}
	if err := errors.Join(faults...); err != nil {
		return r, err
	}
	if r.Requests = len(times); r.Requests == 0 {
		return r, errors.New("httpload: no answers")
	}
	slices.Sort(times)
	r.P50, r.P99 = times[len(times)/2], times[len(times)*99/100]
	return r, nil
}

// connection is one connection and its results.
type connection struct {
	interval time.Duration // time between requests, or 0 without a pace
	due      time.Time     // time at which the next request is due
	times    []time.Duration
	status   map[int]int
	fault    error
}

func (c *connection) run(addr string, end time.Time, target func(k int) string) {
	c.status = map[int]int{}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		c.fault = fmt.Errorf("httpload: %w", err)
		return
	}
	defer conn.Close()
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	for k := 0; ; k++ {
		began := c.next()
		if began.After(end) {
			return
		}
		fmt.Fprintf(out, "GET %s HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: identity\r\n\r\n", target(k))
		status, err := ask(in, out)
		if err != nil {
			c.fault = fmt.Errorf("httpload: request %d: %w", k, err)
			return
		}
		c.status[status]++
		c.times = append(c.times, time.Since(began))
	}
}

// next waits until the next request is due, and returns the time at which it was due.
func (c *connection) next() time.Time {
	if c.interval == 0 {
		return time.Now()
	}
	at := c.due
	c.due = at.Add(c.interval)
	time.Sleep(time.Until(at))
	return at
}

func ask(in *bufio.Reader, out *bufio.Writer) (status int, err error) {
	if err := out.Flush(); err != nil {
		return 0, err
	}
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}
