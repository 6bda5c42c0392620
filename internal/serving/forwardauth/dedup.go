package forwardauth

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	// dedupTTL is how long the verdict of a check answers further checks with its id.
	dedupTTL = time.Second
	// maxRepeats is the number of further checks that it answers. The gateway repeats a check once or twice. More come
	// from a client that chooses its ids because the gateway passes them on.
	maxRepeats = 3
	// maxRemembered bounds each of the two generations of checks; each takes about 300 bytes.
	maxRemembered = 32768
)

// dedup holds the verdicts of the last second by the id of their request, so that a check that the gateway repeats is
// charged once.
//
// An id is bound to the method, host, target and client with which it was first seen. With another request it is
// another check. So a client that learns or chooses ids gets at most maxRepeats further checks free of charge, for the
// same target and its own address only.
type dedup struct {
	seed maphash.Seed

	mu sync.Mutex // guards the fields below
	// recent has the checks since begin, older the checks of the generation before. A check in neither, expired or
	// evicted, is charged again.
	recent, older map[uint64]*dedupEntry
	begin         time.Time
}

type dedupEntry struct {
	at      time.Time
	repeats int           // guarded by repeats.mu
	done    chan struct{} // closed when the decision is set
	decision
}

// decision is the decision about a check. It is not written after its check is done.
type decision struct {
	verdict hottype.Verdict
	report  uint64 // the number by which the gateway reports the end of the request, or 0
}

func newDedup() *dedup {
	return &dedup{seed: maphash.MakeSeed(), recent: map[uint64]*dedupEntry{}}
}

// decideOnce decides a check. If it repeats another check, it waits for the verdict of that check instead.
func (p *dedup) decideOnce(now time.Time, id string, req *hottype.Request,
	decide func() decision) (one decision, repeated bool) {
	d, repeated := p.findOrAdd(now, p.hash(id, req))
	if !repeated {
		defer close(d.done)
		d.decision = decide()
		return d.decision, false
	}
	<-d.done // soon: the gate keeps to its budget
	one = d.decision
	one.verdict.Wait = max(0, one.verdict.Wait-now.Sub(d.at))
	return one, true
}

// findOrAdd returns the check that this one repeats, or adds it as the first.
func (p *dedup) findOrAdd(now time.Time, key uint64) (d *dedupEntry, repeated bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.begin) >= dedupTTL || len(p.recent) >= maxRemembered {
		p.older, p.recent, p.begin = p.recent, map[uint64]*dedupEntry{}, now
	}
	for _, generation := range []map[uint64]*dedupEntry{p.recent, p.older} {
		d, ok := generation[key]
		if ok && now.Sub(d.at) < dedupTTL && d.repeats < maxRepeats {
			d.repeats++
			return d, true
		}
	}
	d = &dedupEntry{at: now, done: make(chan struct{})}
	p.recent[key] = d
	return d, false
}

func (p *dedup) hash(id string, req *hottype.Request) uint64 {
	return maphash.Comparable(p.seed, struct {
		id, method, host, target string
		client                   hottype.Client
	}{id, req.Method, req.Host, req.Target, req.Client})
}
