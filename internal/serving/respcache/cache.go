package respcache

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/wait"
)

// Config holds the settings of a cache.
type Config struct {
	Gate Gate // required
	// Memory bounds the bytes of all answers; 0 means 64 MiB.
	Memory int64
	// Timeout bounds a request to the handler whose response may be stored; 0 means 60 s. A response that takes longer
	// goes on for the client that reads it.
	Timeout time.Duration
	// Served reports whether the answers of a key are still wanted. Run asks it once a second and removes the others.
	// If Served is nil, all are wanted.
	Served func(now time.Time, key hottype.Key) bool
	// Answers writes denials and the fields with the remaining limits.
	Answers httplimit.Responder
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives panics of handlers whose response no client reads; nil discards them.
	Log *slog.Logger
}

// Defaults of a Config.
const (
	DefaultMemory  = 64 << 20
	DefaultTimeout = time.Minute
)

// Cache answers requests for hot keys. Any number of goroutines may use it, before any number of handlers. Run removes
// its expired entries.
type Cache struct {
	cfg Config
	*shared
}

// shared holds the parts that a cache shares with the caches that With made of it.
type shared struct {
	store   *store
	all     context.Context // ends the fetches
	end     context.CancelFunc
	fetches sync.WaitGroup
	scopes  atomic.Int64
	counters
}

// New builds a cache. It panics without a Gate.
func New(cfg Config) *Cache {
	if cfg.Gate == nil {
		panic("respcache: New: no gate")
	}
	cfg.Memory = cmp.Or(max(cfg.Memory, 0), DefaultMemory)
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), DefaultTimeout)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Cache{cfg: cfg, shared: &shared{store: newStore(cfg.Memory)}}
	c.silent = map[source]uint64{}
	c.all, c.end = context.WithCancel(context.Background())
	return c
}

// With returns a cache with the same memory, counters and Run, but with gate g and responder a.
func (c *Cache) With(g Gate, a httplimit.Responder) *Cache {
	other := &Cache{cfg: c.cfg, shared: c.shared}
	other.cfg.Gate, other.cfg.Answers = g, a
	return other
}

// NewScope returns a name for a handler, different for each handler behind the cache.
func (c *Cache) NewScope() string { return strconv.FormatInt(c.scopes.Add(1), 36) }

// Run sweeps the cache once a second until ctx ends. It then cancels the fetches that still run, and returns when all
// have ended.
func (c *Cache) Run(ctx context.Context) error {
	wait.Every(ctx, time.Second, func() { c.Sweep(c.cfg.Now()) })
	c.end()
	c.fetches.Wait()
	return nil
}

// Sweep removes expired entries, and the entries of keys that are no longer served.
func (c *Cache) Sweep(now time.Time) {
	known := map[hottype.Key]bool{}
	c.store.removeEntries(now, func(key hottype.Key) bool {
		served, asked := known[key]
		if !asked {
			served = c.cfg.Served == nil || c.cfg.Served(now, key)
			known[key] = served
		}
		return !served
	})
}

// Purge removes the entries of a key and returns their number. Responses of fetches that run now will not be stored.
func (c *Cache) Purge(key hottype.Key) int {
	n := c.store.removeEntries(c.cfg.Now(), func(k hottype.Key) bool { return k == key })
	c.purged.Add(uint64(n))
	return n
}

// Serve answers a request that the gate leaves to the cache, from the cache or by the handler. scope distinguishes
// handlers that may see the same target.
func (c *Cache) Serve(w http.ResponseWriter, r *http.Request, left *PendingRequest, next http.Handler, scope string) {
	v := &left.Verdict
	if why := bypassReason(r, v.Cache); why != "" {
		c.passToHandler(w, r, left, next, why)
		return
	}
	var (
		buf     [256]byte
		target  = appendTarget(buf[:0], r, scope, v.Class)
		partial = len(r.Header["Range"]) > 0
		wait    *time.Timer
	)
	for {
		f := c.store.find(r, target, v, c.cfg.Now, partial, "")
		if part := partOf(r); f.pass && part != "" {
			f = c.store.find(r, target, v, c.cfg.Now, false, part)
		}
		if f.lead {
			f.fetch.upstream = left.Upstream
		}
		switch {
		case f.answer != nil:
			if f.lead {
				c.fetchInBackground(f.fetch, r, next)
			}
			c.serveAnswer(w, r, left, f.answer, f.now, wait != nil)
			return
		case f.pass && partial:
			c.passToHandler(w, r, left, next, byRange)
			return
		case f.pass:
			c.passToHandler(w, r, left, next, byUncacheable)
			return
		case f.lead && c.leadFetch(w, r, left, f.fetch, next):
			return
		}
		if wait == nil {
			wait = time.NewTimer(v.Cache.Wait)
			defer wait.Stop()
		}
		select {
		case <-f.fetch.done:
			c.collapsed.Add(1)
		case <-wait.C:
			c.serveTimedOut(w, r, left, f.fetch, next)
			return
		case <-r.Context().Done():
			return // the client left
		}
	}
}

// serveAnswer answers a request with a, whose age and lifetime are those at time now.
func (c *Cache) serveAnswer(w http.ResponseWriter, r *http.Request, left *PendingRequest, a *answer, now time.Time,
	waited bool) {
	left.count(&left.Verdict)
	c.cfg.Answers.Enforce(w, r, &left.Verdict.Verdict)
	a.write(w, r, now, hitField(a, now, waited))
}

// chargeKeys charges the keys of a request. The verdict has a lease if the request holds a slot of its client or of a
// key.
func (c *Cache) chargeKeys(r *http.Request, left *PendingRequest) verdict.Verdict {
	v := c.cfg.Gate.ChargeKeys(r, left.Cookies)
	v.Lease = cmp.Or(v.Lease, left.Verdict.Lease)
	return v
}

// passToHandler sends a request to the handler as if there were no cache.
func (c *Cache) passToHandler(w http.ResponseWriter, r *http.Request, left *PendingRequest, next http.Handler,
	why string) {
	c.bypassed[reasonIndex(why)].Add(1)
	v := c.chargeKeys(r, left)
	defer c.cfg.Gate.KeepLease(v.Lease)()
	left.count(&v)
	w.Header()["Cache-Status"] = forwardedField("bypass", why, false)
	if c.cfg.Answers.Enforce(w, r, &v.Verdict) {
		c.cfg.Gate.ServeAllowed(w, r, &v, next, nil)
	}
}

// leadFetch fetches a response for the client of a request and for all requests that wait for it, and reports whether
// the client has its answer. It does not if the fetch is plain, because a plain fetch is for others too, or if the
// response is for clients with other fields. If the keys' limits deny the fetch, the client gets the stale answer, if
// there is one, or a denial.
func (c *Cache) leadFetch(w http.ResponseWriter, r *http.Request, left *PendingRequest, f *fetch,
	next http.Handler) (answered bool) {
	charged := c.chargeKeys(r, left)
	if !charged.Allowed {
		c.denyFetch(w, r, left, f, &charged)
		return true
	}
	f.prepare(c.all, r, c.cfg.Timeout, c.cfg.Now)
	c.fetched.Add(1)
	if f.plain {
		close(f.gone)
		c.fetches.Go(func() { c.runFetch(f, next, &charged) })
		return false
	}
	left.count(&charged)
	held := charged.Wait
	charged.Wait = 0 // the fetch waits, not its client
	c.cfg.Answers.Enforce(w, r, &charged.Verdict)
	charged.Wait = held
	fwd := "miss"
	if f.prior != nil {
		fwd = "stale"
	}
	ended := make(chan struct{})
	c.fetches.Go(func() {
		defer close(ended)
		c.runFetch(f, next, &charged)
	})
	left.again = !f.streamResponse(w, r, fwd, !left.again)
	if left.Verdict.Lease != nil || left.again && charged.Lease != nil {
		<-ended // a client that left holds its slot until the handler has ended
	}
	return !left.again
}

// denyFetch ends a fetch that the limits of the key deny, and answers the client for which it was made.
func (c *Cache) denyFetch(w http.ResponseWriter, r *http.Request, left *PendingRequest, f *fetch,
	denied *verdict.Verdict) {
	now := c.cfg.Now()
	c.denied.Add(1)
	if f.backup != nil {
		f.finishDenied(now.Add(fetchBackoff), now)
		c.serveAnswer(w, r, left, f.backup, now, false)
		return
	}
	f.finishDenied(time.Time{}, now)
	left.count(denied)
	c.cfg.Answers.Enforce(w, r, &denied.Verdict)
}

// fetchInBackground fetches a response in the background, unless the keys' limits deny it.
func (c *Cache) fetchInBackground(f *fetch, r *http.Request, next http.Handler) {
	f.prepare(c.all, r, c.cfg.Timeout, c.cfg.Now)
	close(f.gone)
	c.fetches.Go(func() {
		charged := c.cfg.Gate.ChargeKeys(f.request, nil)
		if charged.Allowed {
			c.fetched.Add(1)
			c.runFetch(f, next, &charged)
			return
		}
		c.denied.Add(1)
		f.cancel()
		now := c.cfg.Now()
		f.finishDenied(now.Add(min(fetchBackoff, max(charged.RetryAfter, time.Millisecond))), now)
	})
}

// runFetch runs a fetch, in a goroutine that Run waits for.
func (c *Cache) runFetch(f *fetch, next http.Handler, charged *verdict.Verdict) {
	defer c.recordFetch(f) // also if the handler ends its goroutine
	defer c.cfg.Gate.KeepLease(charged.Lease)()
	httplimit.Wait(f.request.Context(), &charged.Verdict)
	f.run(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.cfg.Gate.ServeAllowed(w, r, charged, next, nil)
	}))
}
