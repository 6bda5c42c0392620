package main

import (
	"bytes"
	"net"
	"net/http"
	"sync"
	"time"
)

// upstream is the protected site. It counts its requests.
type upstream struct {
	mu       sync.Mutex
	inFlight map[string]int // by target
	asked    map[string][]request
}

// request records the time of a request, and the number under way for its target then.
type request struct {
	at     time.Time
	atOnce int
}

const answersAfter = 10 * time.Millisecond

// listenUpstream serves until the process ends.
func listenUpstream() (*upstream, string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	u := &upstream{inFlight: map[string]int{}, asked: map[string][]request{}}
	go func() { _ = http.Serve(ln, u) }()
	return u, ln.Addr().String(), nil
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.URL.RequestURI()
	u.mu.Lock()
	u.inFlight[target]++
	u.asked[target] = append(u.asked[target], request{time.Now(), u.inFlight[target]})
	u.mu.Unlock()
	time.Sleep(answersAfter)
	writePage(w, r)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inFlight[target]--
}

func writePage(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(page) // the client may have left
}

var page = bytes.Repeat([]byte("x"), 1024)

// met holds the requests for a target before and after a moment.
type met struct{ before, perSecond, atOnce int }

// met returns the number of requests before since, the number in the busiest second after it, and the largest number
// under way at once.
func (u *upstream) met(target string, since time.Time) (m met) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.asked[target]
	for m.before < len(all) && all[m.before].at.Before(since) {
		m.before++
	}
	first := m.before
	for i := first; i < len(all); i++ {
		for all[i].at.Sub(all[first].at) >= time.Second {
			first++
		}
		m.perSecond, m.atOnce = max(m.perSecond, i-first+1), max(m.atOnce, all[i].atOnce)
	}
	return m
}
