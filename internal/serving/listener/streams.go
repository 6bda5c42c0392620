package listener

import (
	"sync"
	"time"
)

// decoding has a place for each header that net/http makes a request of in this process. It is a matter of
// microseconds, or of what handlers the machine cannot begin: they wait in their frames, which are small.
var decoding = make(chan struct{}, 32)

// decodesWithin is the longest time for which a header has its place. net/http may begin no handler and wait until its
// client reads the answer, and others must not wait for that client.
const decodesWithin = 10 * time.Millisecond

// streams follows the HTTP/2 streams of one connection.
//
// net/http keeps a request until its answer is written, and the client decides how long that takes. So a request keeps
// what it holds of the account until its handler has returned and its stream is closed.
//
// net/http makes a request of each header before a handler can reject it. So nothing more is read of the connection
// until the handler of the last request has begun or, if the account has no room for it, until it is answered: a
// connection has at most one request that the account does not hold, for which perConnection has room.
type streams struct {
	account *account // nil: another server than net/http reads the connection, and nothing waits

	mu       sync.Mutex // guards what follows
	changed  sync.Cond  // awaited or ending has changed
	open     map[uint32]*stream
	live     int     // streams that are open, or whose handlers run
	last     uint32  // the highest number of a stream
	complete bool    // all of its header was read
	awaited  *stream // the last stream, until reading goes on; nil: nothing is awaited
	ending   bool    // the server takes no new streams, or the connection is closed

	resets budget // streams that were reset soon, less those that were answered
}

// soon is the age below which a stream that is reset counts towards a flood. A connection has at most maxStreams
// older ones in this time.
const soon = time.Second

// maxFollowed bounds the streams that are followed. Servers keep a tenth open.
const maxFollowed = 10 * maxStreams

// stream is one stream, with what its request holds of the account.
type stream struct {
	since         time.Time
	wrote         time.Time // when a part of its answer was written
	client        *client
	headers, held int64
	place         *time.Timer // gives its place in decoding back; nil: it has none
	running       bool        // its handler has begun and not returned
	rejected      bool        // the account has no room for it
	tooLong       bool        // nor has that of the client for its header
	closed        bool
}

// follow begins to account for a connection; nil: only floods matter.
func (s *streams) follow(a *account) {
	s.account, s.resets.since = a, time.Now()
	s.changed.L = &s.mu
}

// enter returns when the header that was read may be made a request of. A connection with as many requests as net/http
// begins does not wait, because a place is given back when the handler begins, or after decodesWithin.
func (s *streams) enter() {
	if s.account == nil {
		return
	}
	s.mu.Lock()
	st := s.awaited
	wait := s.complete && st != nil && st.place == nil && !s.ending && s.live <= maxStreams
	s.mu.Unlock()
	if !wait {
		return
	}
	decoding <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.place = time.AfterFunc(decodesWithin, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leave(st)
	})
	if s.ending {
		s.leave(st)
	}
}

// leave gives the place of a header back. The caller holds mu.
func (s *streams) leave(st *stream) {
	if st != nil && st.place != nil {
		st.place.Stop()
		st.place = nil
		<-decoding
	}
}

// awaitHandler returns when the next frame may be read.
func (s *streams) awaitHandler() {
	if s.account == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.complete && s.awaited != nil && !s.ending {
		s.changed.Wait()
	}
}

// areFlooded reports whether too many streams were reset.
func (s *streams) areFlooded() bool { return s.resets.isSpent() }

// received follows a frame of the client. It reports whether a server that has sent GOAWAY does not ignore it, because
// it would make a stream.
func (s *streams) received(f *frame) bool {
	const continuation = 9
	switch f.kind {
	case frameHeaders, continuation:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.complete = f.flags&flagEndHeaders != 0
		if f.kind == continuation || f.stream <= s.last { // a trailer
			return true
		}
		if s.ending || len(s.open) >= maxFollowed {
			return false
		}
		if s.open == nil {
			s.open = map[uint32]*stream{}
		}
		s.awaited = &stream{since: time.Now()}
		s.open[f.stream], s.last = s.awaited, f.stream
		s.live++
	case frameReset:
		s.close(f.stream, true)
	}
	return true
}

// sent follows a frame of the server.
func (s *streams) sent(f *frame) {
	switch {
	case f.kind == frameGoAway:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ending = true
		s.leave(s.awaited)
		s.changed.Broadcast()
	case f.kind == frameReset:
		s.close(f.stream, f.code != 0) // 0: the rest of a body is not needed
	case f.endsStream():
		s.close(f.stream, false)
	case f.kind == frameHeaders:
		s.answered(f.stream)
	case f.kind == frameData:
		s.mu.Lock()
		defer s.mu.Unlock()
		if st := s.open[f.stream]; st != nil {
			st.wrote = time.Now()
		}
	}
}

// lastWrite returns the time at which a part of the answer of a stream was written.
func (s *streams) lastWrite(st *stream) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.wrote
}

// answered accounts for a request that net/http answers by itself, such as one with a header that is too long.
func (s *streams) answered(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.open[id]
	if st == nil || st != s.awaited || st.running || st.rejected || s.account == nil {
		return
	}
	s.leave(st)
	s.account.hold(st, maxHeader)
	s.goOn(st)
}

// begin returns the stream of the request whose handler begins, which is rejected if the account has no room for its
// header. The handler calls returned at its end in any case.
func (s *streams) begin(client *client, header int64) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.awaited
	if st == nil { // never, as far as is known
		st = &stream{closed: true}
		s.live++
	}
	s.leave(st)
	st.client, st.running = client, true
	s.account.hold(st, header)
	s.goOn(st)
	return st
}

// goOn lets the connection be read again, unless st still has to be answered. The caller holds mu.
func (s *streams) goOn(st *stream) {
	if st == s.awaited && !st.rejected {
		s.awaited = nil
		s.changed.Broadcast()
	}
}

// returned is the end of a handler.
func (s *streams) returned(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.running = false
	s.release(st)
}

// close ends a stream. early reports whether it was taken back rather than answered.
func (s *streams) close(id uint32, early bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.open[id]
	if st == nil {
		return
	}
	delete(s.open, id)
	switch {
	case !early:
		s.resets.giveBack(1)
	case time.Since(st.since) < soon:
		s.resets.n.Add(1)
	}
	st.closed = true
	s.release(st)
	if st == s.awaited {
		s.awaited = nil
		s.changed.Broadcast()
	}
}

// release gives back what a stream holds when nothing keeps its request: the handler has returned, and the answer was
// written or nobody wants it. The caller holds mu.
func (s *streams) release(st *stream) {
	if st.running || !st.closed {
		return
	}
	s.live--
	s.leave(st)
	if s.account != nil {
		s.account.release(st)
	}
}

// end is the end of the connection.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.open {
		st.closed = true
		s.release(st)
	}
	s.open, s.ending = nil, true
	s.changed.Broadcast()
}
