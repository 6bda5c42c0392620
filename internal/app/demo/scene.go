package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// The time in which the site makes a page, as from a database, and the number of pages that it makes at a time. Its
// capacity is 2000 pages a second, and 830 when it is slow.
const (
	quickPage       = 25 * time.Millisecond
	slowPage        = 60 * time.Millisecond
	siteConcurrency = 50
)

type site struct {
	*http.Server
	page  atomic.Int64  // nanoseconds that a page takes
	viral atomic.Uint64 // requests for the viral topic that reached the site
	busy  chan struct{} // has room for the pages that are made at a time
}

func openSite(ctx context.Context) (*site, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: the site cannot listen: %w", err)
	}
	s := &site{busy: make(chan struct{}, siteConcurrency)}
	s.setPageTime(quickPage)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /topic", s.serveTopic)
	s.Server = &http.Server{Addr: ln.Addr().String(), Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(ln) }() // ends when Run closes the server
	return s, nil
}

func (s *site) setPageTime(page time.Duration) { s.page.Store(int64(page)) }

func (s *site) serveTopic(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	if id == strconv.Itoa(ViralTopic) {
		s.viral.Add(1)
	}
	select {
	case s.busy <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	time.Sleep(time.Duration(s.page.Load()))
	<-s.busy
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "topic %q: all the news\n", id)
}

// freeAddress returns the usual loopback address, or any free port if another process has it, such as a demo in another
// window.
func freeAddress(ctx context.Context, usual string) string {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", usual)
	if err != nil {
		return "127.0.0.1:0"
	}
	ln.Close()
	return usual
}

// The request rates of each group per second. In a wave the viral topic is 60 % of the traffic.
const (
	quietRate   = 540
	crawlerRate = 60
	viralRate   = 900
	loopRate    = 400
)

// plan holds the time at which each phase begins. The topic goes viral three times. The first wave is limited, the
// second is answered from memory, and the limit of the third follows the capacity of the site, which becomes slow in
// the middle of the wave. Without a duration the plan repeats.
type plan struct {
	phaseStarts [phases]time.Duration
	length      time.Duration
	repeats     bool
}

const (
	before = iota
	limited
	between
	served
	pause
	adaptive
	slowed
	after
	phases
)

func newPlan(d time.Duration) plan {
	p := plan{length: d}
	// The first end leaves time to see the topic released: 2 s of window, 3 s of cooldown. The last end leaves time for
	// the responses that are under way.
	parts := [phases]time.Duration{0, 2, 9, 15, 20, 21, 26, 39}
	if d <= 0 {
		p.length, p.repeats = 80*time.Second, true
		parts = [phases]time.Duration{0, 3, 8, 15, 20, 23, 27, 36}
	}
	for phase, part := range parts {
		p.phaseStarts[phase] = p.length * part / 40
	}
	return p
}

func (p *plan) phaseAt(at time.Duration) int {
	if p.repeats {
		at %= p.length
	}
	phase := before
	for phase < after && at >= p.phaseStarts[phase+1] {
		phase++
	}
	return phase
}

// isViral reports whether the viral topic is requested in a phase.
func isViral(phase int) bool {
	return phase == limited || phase == served || phase == adaptive || phase == slowed
}

func (p *plan) formatPlan() string {
	at := func(phase int) float64 { return p.phaseStarts[phase].Seconds() }
	text := fmt.Sprintf("one topic takes 60 %% of the traffic three times: from %.0f s it is limited, from %.0f s "+
		"answered\n                 from memory, and from %.0f s its limit follows the capacity of the site", at(limited),
		at(served), at(adaptive))
	if p.repeats {
		return text + fmt.Sprintf("; again every %.0f s; Ctrl-C ends it", p.length.Seconds())
	}
	return text + fmt.Sprintf("; the end is at %.0f s", p.length.Seconds())
}
