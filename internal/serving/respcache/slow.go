package respcache

import (
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// A response that takes long, such as a stream or a long download, is for its client alone. This file decides when
// other requests stop waiting for it, when it is no longer to be stored, and when it ends because no client reads it.

// markSlow is called when the body has taken longer since its header than a request may wait. The waiting requests go
// to the handler by themselves, as do later ones until the fetch has ended.
func (f *fetch) markSlow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finished {
		return
	}
	f.slow = true
	f.store.markSlow(f)
	f.wakeWaiters()
	f.endUnread()
}

// expire is called when the fetch has taken longer than is allowed for a response that is stored. The response goes on
// for the client that reads it, unless that client can have a stored one.
func (f *fetch) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finished {
		return
	}
	f.expired = true
	switch {
	case f.held, f.isUnread(), f.status == 0 && f.backup != nil:
		f.cancel()
	case f.status == 0:
		f.releaseWaiters()
	case f.answer != nil:
		f.stopBuffering(whyStream)
	}
}

// endUnread ends a response that no client reads, if it cannot be stored: because of its status or fields, because it
// took too long, or because its body is slow and of unknown length, and so may have no end. It needs mu.
func (f *fetch) endUnread() {
	switch {
	case f.finished, f.held, !f.isUnread():
	case f.answer != nil && f.slow && f.declaredLength < 0:
		f.stopBuffering(whyStream)
	case f.answer == nil && (f.status != 0 || f.expired):
		f.cancel() // a handler that ignores errors of Write would write for ever
	}
}

// isUnread reports whether no client reads the response any more.
func (f *fetch) isUnread() bool {
	select {
	case <-f.gone:
		return true
	default:
		return false
	}
}

// isAwaited reports whether requests may wait for the response.
func (f *fetch) isAwaited() bool {
	select {
	case <-f.done:
		return false
	default:
		return true
	}
}

// wakeWaiters ends the waiting of all requests for the fetch, for good. It needs mu.
func (f *fetch) wakeWaiters() {
	if f.isAwaited() {
		close(f.done)
	}
}

// hasHeader reports whether the handler has begun its response.
func (f *fetch) hasHeader() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status != 0
}

// staleFor returns the stored answer for a request that has waited in vain, or nil if there is none that may be served.
func (s *store) staleFor(f *fetch, now time.Time) *answer {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	if a := f.entry.answer; a != nil && isWithin(a.residentTime(now), a.onError) {
		f.shard.stale++
		f.entry.failing = true
		return a
	}
	return nil
}

// markSlow marks an entry whose fetch has a body that takes too long to wait for.
func (s *store) markSlow(f *fetch) {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	f.entry.failing = f.entry.failing || f.entry.fetch == f && f.entry.answer != nil
}

// freeBody frees the buffered part of a body that will not be stored, after its client has read it.
func (s *streaming) freeBody() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer == nil && !s.finished && s.off == len(s.body) {
		s.store.bytes.Add(-s.reserved)
		s.body, s.reserved, s.off = nil, 0, 0
	}
}

// serveTimedOut answers a request that has waited for as long as it may: with a stale answer, by the handler if its
// response has begun, because it then answers others too, or with a denial.
func (c *Cache) serveTimedOut(w http.ResponseWriter, r *http.Request, left *PendingRequest, f *fetch,
	next http.Handler) {
	now := c.cfg.Now()
	if a := c.store.staleFor(f, now); a != nil {
		c.serveAnswer(w, r, left, a, now, true)
		return
	}
	if f.hasHeader() {
		c.passToHandler(w, r, left, next, byUncacheable)
		return
	}
	c.timedOut.Add(1)
	denied := left.Verdict
	denied.Allowed, denied.Reason, denied.Rule, denied.RetryAfter = false, hottype.ReasonHot, denied.Key.Resource(),
		time.Second
	denied.Limit, denied.Window, denied.Remaining, denied.ResetAfter = 0, 0, 0, 0 // not the values of a per-IP window
	if !denied.Hot {
		denied.Reason = hottype.ReasonOverride
	}
	left.count(&denied)
	c.cfg.Answers.Enforce(w, r, &denied.Verdict)
}
