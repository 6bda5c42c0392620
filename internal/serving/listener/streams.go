package listener

import (
	"sync"
	"time"
)

// decoding has a place for each header that net/http is making a request of in this process. That takes microseconds,
// unless the machine cannot begin the handlers: further headers then wait in their frames, which are small.
var decoding = make(chan struct{}, 32)

// decodesWithin is the longest time for which a header keeps its place. net/http may begin no handler and wait until
// its client reads the response, and others must not wait for that client.
const decodesWithin = 10 * time.Millisecond

// streams follows the HTTP/2 streams of one connection.
//
// net/http keeps a request until its response is written, and the client decides how long that takes. So a request
// keeps its room in the account until its handler has returned and its stream is closed.
//
// net/http makes a request of each header before a handler can reject it. So nothing more is read of the connection
// until the handler of the last request has begun or, if the account has no room for it, until it is answered. A
// connection thus has at most one request outside the account, for which perConnection has room.
type streams struct {
	// The account is nil if another server than net/http reads the connection. Nothing waits then.
	account *account

	mu       sync.Mutex // guards the fields below
	changed  sync.Cond  // awaited or ending has changed
	open     map[uint32]*stream
	live     int     // streams that are open, or whose handlers run
	last     uint32  // the highest number of a stream
	complete bool    // the whole header of the last stream was read
	awaited  *stream // the last stream until reading goes on; nil if nothing is awaited
	ending   bool    // the server takes no new streams, or the connection is closed

	resets budget // streams that were reset soon, minus answered ones
}

// earlyResetAge is the age below which a stream that is reset counts towards a flood. A connection has at most
// maxStreams older streams in this time.
const earlyResetAge = time.Second

// maxFollowed bounds the streams that are followed. Servers keep a tenth of it open.
const maxFollowed = 10 * maxStreams

// stream is one stream, with the room of its request in the account.
type stream struct {
	since         time.Time
	wrote         time.Time // when a part of its response was last written
	client        *client
	headers, held int64
	place         *time.Timer // returns its place in decoding; nil if it has none
	running       bool        // its handler has begun and not returned
	rejected      bool        // the account has no room for it
	tooLong       bool        // the client has no room for its header
	closed        bool
}

// startFollowing begins to account for a connection. If a is nil, it counts only floods.
func (s *streams) startFollowing(a *account) {
	s.account, s.resets.since = a, time.Now()
	s.changed.L = &s.mu
}

// acquirePlace returns when the header that was read may be made a request. A connection with as many requests as
// net/http begins does not wait, because a place is returned when the handler begins, or after decodesWithin.
func (s *streams) acquirePlace() {
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
		s.releasePlace(st)
	})
	if s.ending {
		s.releasePlace(st)
	}
}

// releasePlace returns the place of a header. The caller holds mu.
func (s *streams) releasePlace(st *stream) {
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

// followReceived follows a frame of the client. It returns false for a frame that would begin a stream but has no
// effect, because the server has sent GOAWAY, or too many streams are open.
func (s *streams) followReceived(f *frame) bool {
	const continuation = 9
	switch f.kind {
	case frameHeaders, continuation:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.complete = f.flags&flagEndHeaders != 0
		// CONTINUATION continues a header, and HEADERS of an earlier stream are its trailer. Neither begins a stream.
		if f.kind == continuation || f.stream <= s.last {
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
		s.closeStream(f.stream, true)
	}
	return true
}

// followSent follows a frame of the server.
func (s *streams) followSent(f *frame) {
	switch {
	case f.kind == frameGoAway:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ending = true
		s.releasePlace(s.awaited)
		s.changed.Broadcast()
	case f.kind == frameReset:
		s.closeStream(f.stream, f.code != 0) // 0 means that the rest of a body is not needed
	case f.endsStream():
		s.closeStream(f.stream, false)
	case f.kind == frameHeaders:
		s.accountUnhandled(f.stream)
	case f.kind == frameData:
		s.mu.Lock()
		defer s.mu.Unlock()
		if st := s.open[f.stream]; st != nil {
			st.wrote = time.Now()
		}
	}
}

// lastWrite returns the time at which a part of the response of a stream was last written.
func (s *streams) lastWrite(st *stream) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.wrote
}

// accountUnhandled accounts for a request that net/http answers by itself, such as one with a header that is too long.
func (s *streams) accountUnhandled(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.open[id]
	if st == nil || st != s.awaited || st.running || st.rejected || s.account == nil {
		return
	}
	s.releasePlace(st)
	s.account.holdRoom(st, maxHeader)
	s.resumeReading(st)
}

// beginHandler returns the stream of the request whose handler begins. The stream is rejected if the account has no
// room for its header. In any case the handler calls finishHandler at its end.
func (s *streams) beginHandler(client *client, header int64) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.awaited
	if st == nil { // never happens, as far as is known
		st = &stream{closed: true}
		s.live++
	}
	s.releasePlace(st)
	st.client, st.running = client, true
	s.account.holdRoom(st, header)
	s.resumeReading(st)
	return st
}

// resumeReading lets the connection be read again, unless st still has to be answered. The caller holds mu.
func (s *streams) resumeReading(st *stream) {
	if st == s.awaited && !st.rejected {
		s.awaited = nil
		s.changed.Broadcast()
	}
}

// finishHandler records the end of a handler.
func (s *streams) finishHandler(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.running = false
	s.releaseStream(st)
}

// closeStream ends a stream. early is true if it was taken back rather than answered.
func (s *streams) closeStream(id uint32, early bool) {
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
	case time.Since(st.since) < earlyResetAge:
		s.resets.n.Add(1)
	}
	st.closed = true
	s.releaseStream(st)
	if st == s.awaited {
		s.awaited = nil
		s.changed.Broadcast()
	}
}

// releaseStream returns the room of a stream when nothing keeps its request any longer: the handler has returned, and
// the response was written or no client wants it. The caller holds mu.
func (s *streams) releaseStream(st *stream) {
	if st.running || !st.closed {
		return
	}
	s.live--
	s.releasePlace(st)
	if s.account != nil {
		s.account.release(st)
	}
}

// closeAll closes all streams and takes no new ones, because the connection has ended.
func (s *streams) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.open {
		st.closed = true
		s.releaseStream(st)
	}
	s.open, s.ending = nil, true
	s.changed.Broadcast()
}
