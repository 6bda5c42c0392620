package respcache

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// reasons lists the reasons for which requests bypass the cache, and then those for which responses are not stored.
var reasons = []string{
	byAuthorization, byCookie, byCertificate, byBody, byUpgrade, byPrecondition, byField, byRange, byUncacheable,
	whyStatus, whyDirective, whySetCookie, whyVary, whyStream, whyExpired, whySize, whyMemory,
}

func reasonIndex(reason string) int { return slices.Index(reasons, reason) }

type counters struct {
	fetched, failed, collapsed, denied, timedOut, purged atomic.Uint64
	bypassed, notStored                                  [17]atomic.Uint64 // by index in reasons

	mu     sync.Mutex
	silent map[source]uint64 // stored answers that came with neither Cache-Control nor Vary
}

// source is the rule and the upstream of a response.
type source struct{ rule, upstream string }

// sourceOf returns the source of the response of f. All paths of the catch-all rule are one source.
func sourceOf(f *fetch) source {
	rule := f.entry.resource.key.Resource()
	if strings.HasPrefix(rule, "/") {
		rule = "*"
	}
	return source{rule, f.upstream}
}

// Stats are the counters of a cache since it was built. Bytes and Entries are current values.
type Stats struct {
	Hits        uint64            `metric:"hotparam_cache_hits_total" help:"Requests answered with a fresh response from the cache."`
	Stale       uint64            `metric:"hotparam_cache_stale_total" help:"Requests answered with a stale response from the cache."`
	Fetched     uint64            `metric:"hotparam_cache_fetches_total" help:"Requests by the cache for responses that it may store."`
	Failed      uint64            `metric:"hotparam_cache_failed_fetches_total" help:"Requests by the cache whose responses could neither be stored nor delivered."`
	FetchDenied uint64            `metric:"hotparam_cache_denied_fetches_total" help:"Requests that the cache did not send because the limits of the key denied them."`
	Collapsed   uint64            `metric:"hotparam_cache_collapsed_total" help:"Times that a request waited for the response to another request."`
	TimedOut    uint64            `metric:"hotparam_cache_timeouts_total" help:"Requests denied because they waited too long and the cache had no stale response."`
	Bypassed    map[string]uint64 `metric:"hotparam_cache_bypassed_total" label:"reason" help:"Requests that bypassed the cache, by reason."`
	NotStored   map[string]uint64 `metric:"hotparam_cache_not_stored_total" label:"reason" help:"Responses that the cache did not store, by reason."`
	Evicted     uint64            `metric:"hotparam_cache_evicted_total" help:"Entries evicted to make room for others."`
	Purged      uint64            `metric:"hotparam_cache_purged_total" help:"Entries removed by a purge."`
	Entries     uint64            `metric:"hotparam_cache_entries" help:"Entries of the cache."`
	Bytes       int64             `metric:"hotparam_cache_bytes" help:"Bytes of all entries."`
}

// SilentStats counts the stored responses to one rule's requests to one upstream that came with neither Cache-Control
// nor Vary, so that the cache cannot know whether they are the same for all clients.
type SilentStats struct {
	Rule     string `label:"rule"`
	Upstream string `label:"upstream"`
	Stored   uint64 `metric:"hotparam_cache_silent_answers_total" help:"Responses that the cache stored although they had neither Cache-Control nor Vary; hotparam doctor prints a remedy."`
}

// Stats reads the counters.
func (c *Cache) Stats() Stats {
	s := Stats{
		Fetched: c.fetched.Load(), Failed: c.failed.Load(), FetchDenied: c.denied.Load(),
		Collapsed: c.collapsed.Load(), TimedOut: c.timedOut.Load(), Purged: c.purged.Load(),
		Bypassed: map[string]uint64{}, NotStored: map[string]uint64{}, Bytes: c.store.bytes.Load(),
	}
	for i, reason := range reasons {
		if slices.Index(reasons, whyStatus) > i {
			s.Bypassed[reason] = c.bypassed[i].Load()
		} else {
			s.NotStored[reason] = c.notStored[i].Load()
		}
	}
	for i := range c.store.shards {
		sh := &c.store.shards[i]
		sh.mu.Lock()
		s.Hits += sh.hits
		s.Stale += sh.stale
		s.Evicted += sh.evicted
		s.Entries += uint64(sh.lru.Len())
		sh.mu.Unlock()
	}
	return s
}

// Silent reads the counters of stored responses that came with neither Cache-Control nor Vary, sorted by rule and
// upstream.
func (c *Cache) Silent() (all []SilentStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for from, n := range c.silent {
		all = append(all, SilentStats{from.rule, from.upstream, n})
	}
	slices.SortFunc(all, func(a, b SilentStats) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Upstream, b.Upstream))
	})
	return all
}

// recordFetch counts the outcome of a fetch, and logs a panic that no client's server logs.
func (c *Cache) recordFetch(f *fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil || f.result == f.backup && f.backup != nil {
		c.failed.Add(1)
	}
	if f.why != "" {
		c.notStored[reasonIndex(f.why)].Add(1)
	}
	if f.stored != nil && f.stored.silent {
		c.mu.Lock()
		c.silent[sourceOf(f)]++
		c.mu.Unlock()
	}
	if err, _ := f.panicked.(error); f.panicked == nil || errors.Is(err, http.ErrAbortHandler) {
		return
	}
	if f.broken != nil && !f.unread {
		return // the client's server logs it
	}
	c.cfg.Log.Error("respcache: a handler panicked while it fetched an answer", "panic", f.panicked)
}
