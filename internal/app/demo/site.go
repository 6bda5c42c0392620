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

// How long a page takes the site to put together, as from a database, and how many it can put
// together at a time: its capacity is 2000 a second, and 830 when it is slow.
const (
	quickPage       = 25 * time.Millisecond
	slowPage        = 60 * time.Millisecond
	siteConcurrency = 50
)

type site struct {
	*http.Server
	page  atomic.Int64  // nanoseconds that a page takes
	viral atomic.Uint64 // requests for the viral topic that reached it
	busy  chan struct{} // has room for the pages that are put together at a time
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
	mux.HandleFunc("GET /topic", s.topic)
	s.Server = &http.Server{Addr: ln.Addr().String(), Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(ln) }() // ends when Run closes the server
	return s, nil
}

func (s *site) setPageTime(page time.Duration) { s.page.Store(int64(page)) }

func (s *site) topic(w http.ResponseWriter, r *http.Request) {
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

// FreeOr gives an address of loopback: the usual one, or any free port while
// another process has that, such as a demo in another window.
func FreeOr(ctx context.Context, usual string) string {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", usual)
	if err != nil {
		return "127.0.0.1:0"
	}
	ln.Close()
	return usual
}
