package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// request is one request of the traffic.
type request struct {
	at          time.Duration // after the beginning of the traffic, which is the beginning of a second of the clock
	key, client string
	door        int
}

// event is a request with its answer.
type event struct {
	request
	asked, answered time.Duration // after the beginning of the traffic
	allowed         bool
	err             error
}

// took returns the time from the question to the answer.
func (e *event) took() time.Duration { return e.answered - e.asked }

// patience is the time after which a caller no longer wants the answer.
const patience = time.Second

// ahead is the time between the call of play and the first second of the traffic.
const ahead = 200 * time.Millisecond

// timetable sorts requests by their time, and sends those for each key to the two doors in turn.
func timetable(all []request) []request {
	slices.SortStableFunc(all, func(a, b request) int { return int(a.at - b.at) })
	next := map[string]int{}
	for i := range all {
		r := &all[i]
		r.door = next[r.key]
		next[r.key] = 1 - r.door
	}
	return all
}

// play asks the doors, each request at its time, however long other answers take. It returns when all have been
// answered, or ctx has ended. beside, if there is one, is called with the beginning of the traffic, and runs beside it.
func play(ctx context.Context, doors [2]ask, traffic []request, beside func(began time.Time)) []event {
	began := time.Now().Truncate(time.Second).Add(time.Second)
	if time.Until(began) < ahead {
		began = began.Add(time.Second)
	}
	if beside != nil {
		go beside(began)
	}
	all := make([]event, len(traffic))
	var running sync.WaitGroup
	for i, r := range traffic {
		if pause(ctx, time.Until(began.Add(r.at))) != nil {
			all = all[:i]
			break
		}
		e := &all[i]
		running.Go(func() {
			within, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			e.request, e.asked = r, time.Since(began)
			e.allowed, e.err = doors[r.door](within, r.key, r.client)
			e.answered = time.Since(began)
		})
	}
	running.Wait()
	return all
}

// The keys of the traffic that shows accuracy and fairness.
const (
	flooded = "topic?id=flooded" // five times the limit, evenly
	edges   = "topic?id=edges"   // bursts around the ends of seconds
	below   = "topic?id=below"   // 80 % of the limit, evenly
	random  = "topic?id=random"  // 80 % of the limit, at random times
	crowded = "crowd?id=crowded" // one client with five times the limit beside readers with half of it
)

// readers is the number of readers of the crowded key. Each has readerRate requests a second.
const (
	readers    = 25
	readerRate = 2
	greedy     = "203.0.113.9"
)

// accuracyTraffic returns requests for all these keys at once, for a number of seconds.
func accuracyTraffic(seconds int, seed uint64) []request {
	chance := rand.New(rand.NewPCG(seed, 1))
	length := time.Duration(seconds) * time.Second
	var all []request
	add := func(key string, perSecond int, client func(i int) string) {
		every := time.Second / time.Duration(perSecond)
		for i := range seconds * perSecond {
			all = append(all, request{at: time.Duration(i) * every, key: key, client: client(i)})
		}
	}
	add(flooded, 5*rate, address)
	add(below, rate*8/10, address)
	add(crowded, 5*rate, func(int) string { return greedy })
	for reader := range readers {
		phase := time.Duration(chance.Int64N(int64(time.Second / readerRate)))
		for i := range seconds * readerRate {
			at := phase + time.Duration(i)*time.Second/readerRate
			all = append(all, request{at: at, key: crowded, client: address(reader)})
		}
	}
	mean := float64(time.Second) / (rate * 0.8)
	for at := time.Duration(0); at < length; at += time.Duration(chance.ExpFloat64() * mean) {
		all = append(all, request{at: at, key: random, client: address(len(all))})
	}
	// Every three seconds a request opens the window of a limiter whose windows begin with a request, and two bursts of
	// nearly the limit come just before and just behind the end of this second.
	for at := time.Duration(0); at < length; at += 3 * time.Second {
		all = append(all, request{at: at + 5*time.Millisecond, key: edges, client: address(0)})
		for i := range rate {
			offset := time.Duration(i) * 800 * time.Microsecond
			if i > 0 { // the opening request is the first of the hundred
				all = append(all, request{at: at + 914*time.Millisecond + offset, key: edges, client: address(i)})
			}
			all = append(all, request{at: at + 1014*time.Millisecond + offset, key: edges, client: address(i)})
		}
	}
	return timetable(all)
}

// The traffic beside a failing store: a hot key with three times its limit, and pages that come once.
const (
	hot     = "topic?id=hot"
	hotRate = 3 * rate
	pages   = 3 * rate
)

// failureTraffic returns requests for the hot key and for pages, for d.
func failureTraffic(d time.Duration) []request {
	every := time.Second / hotRate
	var all []request
	for i := range int(d / every) {
		at := time.Duration(i) * every
		all = append(all, request{at, hot, address(i), i % 2},
			request{at + every/2, fmt.Sprintf("page?id=%d", i), address(i), i % 2})
	}
	return all
}

// address returns the address of a client, one of a thousand.
func address(i int) string { return fmt.Sprintf("198.51.%d.%d", 100+i%1000/250, 1+i%250) }
