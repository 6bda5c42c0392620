// Package reversedns verifies whether an address belongs to the crawler that it claims to be, in the way that the
// operators of crawlers document: the name of the address (PTR) is in one of their domains, and that name has the
// address.
//
// Requests do not wait for DNS. [Verifier.Verified] answers from memory: it reports false for an unknown address, which
// is then looked up for the next request. The numbers of remembered addresses, of concurrent look-ups and of look-ups
// per second are bounded, so that a client that poses as a crawler from many addresses exhausts neither memory nor DNS.
package reversedns

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/internal/wait"
)

// Bounds of the look-ups and of the memory.
const (
	workers     = 4
	perWorker   = 5               // look-ups a second
	lookupLimit = 5 * time.Second // longest look-up, both ways
	queued      = 256             // addresses that wait to be looked up; more are dropped
	perNetwork  = 2               // waiting or running look-ups of one /24 of IPv4 or /48 of IPv6
	perRegion   = 8               // the same of one /16 or /32
	maxNames    = 4               // names of one address that are checked
	maxEntries  = 4096            // of verified addresses, and as many of the others
	goodFor     = 24 * time.Hour  // then a verified address is looked up again; it stays verified as long again
	badFor      = time.Hour       // how long a negative answer of DNS is used
	retryAfter  = time.Minute     // after a failure of DNS
)

// Resolver queries DNS. *net.Resolver implements it.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Verifier remembers which addresses belong to which domains. It is safe for concurrent use. Look-ups are made while
// [Verifier.Run] runs.
type Verifier struct {
	dns  Resolver
	log  *slog.Logger
	jobs chan job

	mu    sync.Mutex           // guards the fields below
	open  map[netip.Prefix]int // waiting and running look-ups, by network
	good  map[subject]answer
	other map[subject]answer // not verified, not known yet, or not reachable
	stats Stats
}

// subject is the question that an answer belongs to: an address, and the domains it may belong to, separated by spaces.
type subject struct {
	addr    netip.Addr
	domains string
}

type answer struct {
	since time.Time // when the address was verified, or zero
	again time.Time // when it is looked up again
}

type job struct {
	subject
	now time.Time
}

// Stats holds counters since the start. Known and Unverified are current values.
type Stats struct {
	Known      int    `metric:"hotparam_crawlers_verified" help:"Addresses in memory that DNS has verified."`
	Unverified int    `metric:"hotparam_crawlers_unverified" help:"Addresses in memory that are not verified."`
	Lookups    uint64 `metric:"hotparam_crawlers_lookups_total" help:"Addresses looked up in DNS, both ways."`
	Failures   uint64 `metric:"hotparam_crawlers_failures_total" help:"Look-ups of addresses that DNS did not answer."`
	Dropped    uint64 `metric:"hotparam_crawlers_dropped_total" help:"Look-ups dropped because too many were waiting, in total or for a network. They are repeated at the next request of the address."`
}

// New builds a verifier. If dns is nil, it uses the system's resolver.
func New(dns Resolver, log *slog.Logger) *Verifier {
	if dns == nil {
		dns = &net.Resolver{PreferGo: true}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Verifier{
		dns: dns, log: log, jobs: make(chan job, queued),
		open: map[netip.Prefix]int{}, good: map[subject]answer{}, other: map[subject]answer{},
	}
}

func (v *Verifier) Stats() Stats {
	v.mu.Lock()
	defer v.mu.Unlock()
	st := v.stats
	st.Known, st.Unverified = len(v.good), len(v.other)
	return st
}

// Verified reports whether an address is known to belong to one of the domains, which are separated by spaces. It does
// not wait: an address that is unknown, or was looked up long ago, is looked up in the background.
func (v *Verifier) Verified(now time.Time, addr netip.Addr, domains string) bool {
	s := subject{addr.Unmap().WithZone(""), domains}
	v.mu.Lock()
	defer v.mu.Unlock()
	a, good := v.good[s]
	if good && now.Sub(a.since) >= 2*goodFor {
		delete(v.good, s)
		a, good = answer{}, false
	}
	if !good {
		a = v.other[s]
	}
	if now.Before(a.again) || !s.addr.IsValid() {
		return good
	}
	if !v.enqueue(job{s, now}) {
		v.stats.Dropped++
		return good
	}
	a.again = now.Add(retryAfter) // or when the answer has arrived
	v.storeAnswer(good, s, a)
	return good
}

// enqueue queues a look-up and reports whether there was room in the queue and in the quotas of its networks. The
// quotas keep a network with slow servers from delaying the crawlers of others. The caller holds mu.
func (v *Verifier) enqueue(j job) bool {
	near, wide := networksOf(j.addr)
	if v.open[near] >= perNetwork || v.open[wide] >= perRegion {
		return false
	}
	select {
	case v.jobs <- j:
		v.open[near]++
		v.open[wide]++
		return true
	default:
		return false
	}
}

// networksOf returns the smallest network that usually has one owner, and the network that contains 256 (IPv4) or
// 65,536 (IPv6) of those.
func networksOf(a netip.Addr) (near, wide netip.Prefix) {
	bits := 24
	if a.Is6() {
		bits = 48
	}
	return netip.PrefixFrom(a, bits).Masked(), netip.PrefixFrom(a, bits*2/3).Masked()
}

// finishLookup records the end of a look-up.
func (v *Verifier) finishLookup(j job) {
	v.mu.Lock()
	defer v.mu.Unlock()
	near, wide := networksOf(j.addr)
	for _, n := range [...]netip.Prefix{near, wide} {
		if v.open[n]--; v.open[n] == 0 {
			delete(v.open, n)
		}
	}
}

// storeAnswer records an answer. If its map is full, an arbitrary entry is removed. An address that is not verified
// never removes a verified one. The caller holds mu.
func (v *Verifier) storeAnswer(good bool, s subject, a answer) {
	to := v.other
	if good {
		to = v.good
		delete(v.other, s)
	} else {
		delete(v.good, s)
	}
	if _, there := to[s]; !there && len(to) >= maxEntries {
		for any := range to {
			delete(to, any)
			break
		}
	}
	to[s] = a
}

// Run looks up addresses until ctx ends.
func (v *Verifier) Run(ctx context.Context) error {
	var g errgroup.Group
	for range workers {
		g.Go(func() error {
			for {
				select {
				case j := <-v.jobs:
					v.lookUp(ctx, j)
					v.finishLookup(j)
				case <-ctx.Done():
					return nil
				}
				wait.For(ctx, time.Second/perWorker)
			}
		})
	}
	return g.Wait()
}

// lookUp queries DNS both ways and records the answer.
func (v *Verifier) lookUp(ctx context.Context, j job) {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	good, err := v.verifyAddr(ctx, j.subject)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stats.Lookups++
	if err != nil {
		// An address that was verified stays so until the answer is too old, and is looked up again in a minute.
		v.stats.Failures++
		v.log.Warn("reversedns: DNS does not answer; crawlers that are not known yet count as ordinary clients",
			"err", err, "failures", v.stats.Failures)
		return
	}
	a := answer{again: j.now.Add(badFor)}
	if good {
		a = answer{since: j.now, again: j.now.Add(goodFor)}
	}
	v.storeAnswer(good, j.subject, a)
}

// verifyAddr reports whether a name of the address is in the domains and has the address. An error is a failure of DNS;
// the answer that a name does not exist is not an error. Names in other domains are not looked up, because the owner of
// an address chooses its name, and with it the servers that would be queried.
func (v *Verifier) verifyAddr(ctx context.Context, s subject) (bool, error) {
	names, err := v.dns.LookupAddr(ctx, s.addr.String())
	if err != nil {
		return false, dnsFailure(err)
	}
	network := "ip4"
	if s.addr.Is6() {
		network = "ip6"
	}
	for _, name := range names[:min(len(names), maxNames)] {
		if !isWithin(name, s.domains) {
			continue
		}
		addrs, err := v.dns.LookupNetIP(ctx, network, name)
		if err = dnsFailure(err); err != nil {
			return false, err
		}
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == s.addr }) {
			return true, nil
		}
	}
	return false, nil
}

// dnsFailure returns err, or nil if it is the answer that a name does not exist.
func dnsFailure(err error) error {
	if no := (*net.DNSError)(nil); errors.As(err, &no) && no.IsNotFound {
		return nil
	}
	return err
}

func isWithin(host, domains string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for domain := range strings.FieldsSeq(domains) {
		if rest, ok := strings.CutSuffix(host, domain); ok && (rest == "" || rest[len(rest)-1] == '.') {
			return true
		}
	}
	return false
}
