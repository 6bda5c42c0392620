package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

// crowd holds all clients of one cell, and the tallies of their requests. Its events happen on a clock, one at a time.
type crowd struct {
	*cell
	*clock
	random *rand.Rand
	// send sends a request of a client, and calls done by an event when it has ended.
	send func(c *client, done func(reply))

	members, readers, crawler, strangers *tally
	visits                               []*visit
}

func newCrowd(c *cell, k *clock, random *rand.Rand) *crowd {
	return &crowd{cell: c, clock: k, random: random, members: newTally(c.seconds, true),
		readers: newTally(c.seconds, true), crawler: newTally(c.seconds, false), strangers: newTally(c.seconds, false)}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// plan plans the requests of all clients. Returning readers get their passes from passes, dated by now.
func (w *crowd) plan(passes *visitorpass.Passes, now time.Time) {
	returning := newReaders()
	if w.passes > 0 {
		for _, c := range returning {
			c.keep(passes.Issue(now.Add(-w.passes), c.address))
		}
	}
	w.stream(memberRate, w.asker(newMembers(), w.members))
	w.stream(readerRate, w.asker(returning, w.readers))
	for _, v := range visits {
		w.stream(v.rate, func() {
			one := &visit{crowd: w, client: newClient(anywhere(w.random), true), pages: v.pages, began: w.now}
			w.visits = append(w.visits, one)
			one.ask()
		})
	}
	if w.times > 0 {
		crawler := newCrawler(w.random, w.addresses, w.keeping)
		w.streamBetween(w.flood, cmp.Or(w.ends, w.seconds), float64(w.times)*capacity, w.asker(crawler, w.crawler))
	}
}

// stream plans independent events at a mean rate a second, until the cell ends.
func (w *crowd) stream(rate float64, do func()) { w.streamBetween(0, w.seconds, rate, do) }

// streamBetween plans independent events at a mean rate a second, from one second until another.
func (w *crowd) streamBetween(from, to int, rate float64, do func()) {
	pause := func() time.Duration { return time.Duration(w.random.ExpFloat64() / rate * float64(time.Second)) }
	var next func()
	next = func() {
		if w.now < seconds(to) {
			do()
			w.after(pause(), next)
		}
	}
	w.after(seconds(from)+pause(), next)
}

// asker returns a function that sends a request of a random client of a list.
func (w *crowd) asker(list []*client, t *tally) func() {
	return func() {
		c := list[w.random.IntN(len(list))]
		w.ask(c, t, func(r reply) { c.keep(r.cookie) })
	}
}

// ask sends a request and counts its outcome.
func (w *crowd) ask(c *client, t *tally, done func(reply)) {
	sent := w.now
	w.send(c, func(r reply) {
		t.add(sent, w.now-sent, r.outcome)
		done(r)
	})
}

// reply is the answer to one request.
type reply struct {
	outcome outcome
	cookie  string // NAME=VALUE, or ""
	// retryAfter is the time after which a refused client may ask again, in whole seconds.
	retryAfter time.Duration
}

// visit is a new reader. The page of a denial reloads itself after Retry-After and up to maxReload. A page that failed
// is reloaded by hand.
type visit struct {
	crowd   *crowd
	client  *client
	pages   int // left to read
	began   time.Duration
	entered time.Duration // when the first page was answered, or 0
}

func (v *visit) ask() { v.crowd.ask(v.client, v.crowd.strangers, v.read) }

func (v *visit) read(r reply) {
	w := v.crowd
	v.client.keep(r.cookie)
	pause := time.Duration(w.random.ExpFloat64() * float64(thinking))
	switch r.outcome {
	case refused:
		pause = r.retryAfter + seconds(int(math.Ceil(w.random.Float64()*maxReload.Seconds())))
	case answered:
		if v.entered == 0 {
			v.entered = w.now
		}
		if v.pages--; v.pages == 0 {
			return
		}
	}
	w.after(pause, v.ask)
}

// wait returns the time from the first request to the first page, or to the end if there was none.
func (v *visit) wait() time.Duration {
	if v.entered == 0 {
		return v.crowd.now - v.began
	}
	return v.entered - v.began
}
