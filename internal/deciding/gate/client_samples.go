package gate

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/report"
)

const (
	sampledRequests = 128 // kept of all requests, and of denied ones
	sampleClients   = time.Second / 2
	sampleDenied    = time.Second / 20
	sampleAge       = time.Minute
	reportedDenied  = 20  // clients in a report
	sampledKeyBytes = 512 // of a key; of a longer key only the resource is kept
	sampledForBytes = 256 // of method, host and path of a request; of a longer request they are not kept

	sampleLongKeys = time.Second / 20
	longKeyBytes   = 2048  // of a key whose metric name is a hash; longer keys are not kept
	reportedLong   = 16384 // bytes of such keys in a report
)

// clientSamples holds requests of the last minute by client: of all requests one each half second, and of requests that
// are denied because of their client 20 a second. The sampled request is the first one after a fixed time, so that a
// client's part of the samples is its part of the requests. The number of requests is known from the counters. A
// request that is not sampled costs one atomic load. Nothing is sampled before the first report. Requests for keys
// whose metric name may be a hash are sampled too, by their keys, 20 a second.
type clientSamples struct {
	on                atomic.Bool
	denials           atomic.Uint64 // requests from which denied takes its samples
	all, denied, long clientRing
}

type clientRing struct {
	every time.Duration
	next  atomic.Int64 // time in unix nanoseconds from which on a request is sampled

	mu   sync.Mutex // guards the fields below
	list []sampledRequest
	at   int // index into list at which the next request is put
}

type sampledRequest struct {
	at     time.Time
	client hottype.Client
	class  string
	// requested is method, host and path of the request, see decision.requested; only in clientSamples.all.
	requested string
	reason    hottype.Reason
	key       hottype.Key
}

func (c *clientSamples) sampleRequest(d *decision, v *verdict.Verdict) {
	if !c.on.Load() {
		return
	}
	for i := range d.matches {
		if key := d.matches[i].Key; len(key) > canon.ShortPart && len(key) <= longKeyBytes && c.long.isDue(d.now) {
			c.long.add(sampledRequest{at: d.now, key: hottype.Key(key)}) // a copy
		}
	}
	if d.client.IsZero() {
		return
	}
	if c.all.isDue(d.now) {
		c.all.add(sampledRequest{at: d.now, client: d.client, class: v.Class, requested: d.requested()})
	}
	if v.Allowed || !d.deniesClient(v) {
		return
	}
	if c.denials.Add(1); c.denied.isDue(d.now) {
		key := v.Key
		if len(key) > sampledKeyBytes {
			key = hottype.Key(key.Resource()[:min(len(key.Resource()), sampledKeyBytes)])
		}
		c.denied.add(sampledRequest{at: d.now, client: d.client, class: v.Class, reason: v.Reason,
			key: hottype.Key(strings.Clone(string(key)))})
	}
}

// requested returns the parts of a request by which other rules can be tried on it: "GET news.example/topic". Values in
// the path are redacted. It returns "" if they are too long.
func (d *decision) requested() string {
	path, _, _ := strings.Cut(d.st.set.RedactTarget(d.req), "?")
	if len(d.req.Method)+len(d.req.Host)+len(path) > sampledForBytes {
		return ""
	}
	return d.req.Method + " " + d.req.Host + path
}

// deniesClient reports whether a request was denied because of its client: by a window, by its share, or by an override
// of the client. An override of the key applies to all clients alike.
func (d *decision) deniesClient(v *verdict.Verdict) bool {
	if v.Reason == hottype.ReasonBlocked || v.Reason == hottype.ReasonOverride {
		return d.override.Override != nil && v.Rule == d.override.state.id
	}
	return v.Reason.Info().OfClient || v.Reason == hottype.ReasonFair
}

// isDue reports whether to sample the caller's request. A clock that was set back does not end the sampling.
func (r *clientRing) isDue(now time.Time) bool {
	at, next := now.UnixNano(), r.next.Load()
	return (at >= next || next-at > int64(r.every)) && r.next.CompareAndSwap(next, at+int64(r.every))
}

func (r *clientRing) add(s sampledRequest) {
	s.client.Name = strings.Clone(s.client.Name[:min(len(s.client.Name), sampleBytes)])
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) < sampledRequests {
		r.list = append(r.list, s)
		return
	}
	r.list[r.at], r.at = s, (r.at+1)%sampledRequests
}

// recentSamples returns the samples of the last minute.
func (r *clientRing) recentSamples(now time.Time) []sampledRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.list), func(s sampledRequest) bool { return now.Sub(s.at) > sampleAge })
}

// report adds the samples to a report, and starts the sampling.
func (c *clientSamples) report(now time.Time, r *report.Limiter) {
	c.on.Store(true)
	type name struct {
		client hottype.Client
		class  string
	}
	counts := map[name]map[string]uint64{}
	for _, s := range c.all.recentSamples(now) {
		of := name{s.client, s.class}
		if counts[of] == nil {
			counts[of] = map[string]uint64{}
		}
		counts[of][s.requested]++
	}
	for of, requests := range counts {
		one := report.SampledClient{Client: of.client.String(), Class: of.class}
		for requested, n := range requests {
			if one.N += n; requested != "" {
				one.Requests = append(one.Requests, report.NameCount{Name: requested, N: n})
			}
		}
		slices.SortFunc(one.Requests, func(a, b report.NameCount) int { return strings.Compare(a.Name, b.Name) })
		r.Clients = append(r.Clients, one)
	}
	slices.SortFunc(r.Clients, func(a, b report.SampledClient) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Client, b.Client), strings.Compare(a.Class, b.Class))
	})
	r.ClientDenials = c.denials.Load()
	r.DeniedClients, r.DeniedSampled = deniedClients(c.denied.recentSamples(now))
	r.LongKeys = longKeys(c.long.recentSamples(now))
}

// longKeys returns the keys of samples whose metric name is a hash, most frequent first, as many as a report may have.
func longKeys(list []sampledRequest) (keys []hottype.Key) {
	counts := map[hottype.Key]int{}
	for _, s := range list {
		counts[s.key]++
	}
	for key := range counts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b hottype.Key) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	bytes := 0
	return slices.DeleteFunc(keys, func(key hottype.Key) bool {
		if _, hashed := canon.Alias([]byte(key), nil); !hashed || bytes+len(key) > reportedLong {
			return true
		}
		bytes += len(key)
		return false
	})
}

// deniedClients counts samples by client, the clients with the most samples first.
func deniedClients(list []sampledRequest) (found []report.DeniedClient, sampled uint64) {
	type names struct{ reasons, keys topNames }
	of, counted := map[string]int{}, []names{}
	for _, s := range list {
		client := s.client.String()
		i, known := of[client]
		if !known {
			i = len(found)
			of[client] = i
			found = append(found, report.DeniedClient{Client: client, Network: prefixOf(s.client)})
			counted = append(counted, names{topNames{}, topNames{}})
		}
		found[i].N++
		found[i].Class = s.class
		counted[i].reasons.add(s.reason.String())
		counted[i].keys.add(string(s.key))
	}
	for i := range found {
		found[i].Reasons, found[i].Keys = counted[i].reasons.heaviestNames(), counted[i].keys.heaviestNames()
	}
	slices.SortFunc(found, func(a, b report.DeniedClient) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Client, b.Client))
	})
	return found[:min(len(found), reportedDenied)], uint64(len(list))
}
