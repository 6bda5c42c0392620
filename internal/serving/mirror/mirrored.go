// Package mirror receives copies of requests from gateways (nginx mirror, Envoy request mirroring) and counts them.
//
// A copy is an HTTP request that repeats another one, whose target is in a header (nginx) or is its own (Envoy). Each
// rule that matches it counts it once. The response is 204 at once: no client waits for it, nothing is decided, and no
// body is read.
package mirror

import (
	"cmp"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/wait"
)

// Counter receives every request of a key with its client, which may be unknown. AddFrom must not block, and must not
// keep key. *tally.Tally is one.
type Counter interface {
	AddFrom(key []byte, second, n int64, client hottype.Client)
}

// Options configure where a copy has the parts of the original request. The zero value takes the copy as the original
// request.
type Options struct {
	// URIHeader names the header with the original request target, such as X-Original-URI. A request without it is its
	// own original.
	URIHeader string
	// MethodHeader names the header with the original method, because nginx mirrors everything with GET.
	MethodHeader string
	// Clients finds the client of the original request. The sender of the copy is a gateway, and is believed only if it
	// is a trusted proxy. Otherwise, and if it names no client, the client is unknown. nil trusts no proxy.
	Clients *httplimit.Clients
	// Standstill detects that this process stood still. Copies that may have waited meanwhile are not counted, because
	// they would make keys hot. nil counts all.
	Standstill *wait.Standstill
	// Record, if not nil, is called with each match of a request, before it is counted.
	Record func(set *rules.Set, m *rules.Match, second int64, target string)
	// Now is the clock that sets the second of counts; nil means time.Now.
	Now func() time.Time
}

type Stats struct {
	Requests  uint64 `metric:"hotparam_mirror_requests_total" help:"Copied requests received."`
	Unmatched uint64 `metric:"hotparam_mirror_unmatched_total" help:"Copied requests that match no rule."`
	Malformed uint64 `metric:"hotparam_mirror_malformed_total" help:"Copied requests counted under a reserved key, because their parameters are out of bounds."`
	LeftOut   uint64 `metric:"hotparam_mirror_left_out_total" help:"Copied requests that waited while this process stood still; not counted."`
	// Unmeasured counts requests whose rule counts by cost, which a copy does not have.
	Unmeasured uint64 `metric:"hotparam_mirror_unmeasured_total" help:"Copied requests not counted because their rule counts by cost, which a copy does not show."`
}

// Handler counts copies of requests. Make one with New. Any number of goroutines may use it.
type Handler struct {
	rules   func() *rules.Set
	counter Counter
	opt     Options
	scratch sync.Pool // of *rules.Scratch

	requests, unmatched, malformed, leftOut, unmeasured atomic.Uint64
}

// New returns a handler. It calls set for every request, so that the rules can be replaced.
func New(set func() *rules.Set, counter Counter, opt Options) *Handler {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	h := &Handler{rules: set, counter: counter, opt: opt}
	h.scratch.New = func() any { return new(rules.Scratch) }
	return h
}

// ServeHTTP counts the request and responds with 204.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.requests.Add(1)
	if h.opt.Standstill.Recent() {
		h.leftOut.Add(1)
	} else {
		h.countRequest(r)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handler) countRequest(r *http.Request) {
	req := hottype.Request{
		Method: cmp.Or(r.Header.Get(h.opt.MethodHeader), r.Method),
		Host:   originalHost(r.Host),
		Target: cmp.Or(r.Header.Get(h.opt.URIHeader), r.RequestURI),
		Header: r.Header,
		Client: originalClient(r, h.opt.Clients),
	}
	sc := h.scratch.Get().(*rules.Scratch)
	defer h.scratch.Put(sc)
	set := h.rules()
	matches := set.Match(&req, sc)
	if len(matches) == 0 {
		h.unmatched.Add(1)
		return
	}
	second, who := h.opt.Now().Unix(), set.IP.ClientOf(req.Client)
	for i := range matches {
		if matches[i].Malformed {
			h.malformed.Add(1)
		}
		if h.opt.Record != nil {
			h.opt.Record(set, &matches[i], second, req.Target)
		}
		if matches[i].Rule.Cost != "" {
			h.unmeasured.Add(1)
			continue
		}
		h.counter.AddFrom(matches[i].Key, second, 1, who)
	}
}

func (h *Handler) Stats() Stats {
	return Stats{h.requests.Load(), h.unmatched.Load(), h.malformed.Load(), h.leftOut.Load(), h.unmeasured.Load()}
}

// originalClient returns the sender of the original request, never the sender of the copy, because one gateway sends
// the copies of many clients.
func originalClient(r *http.Request, clients *httplimit.Clients) hottype.Client {
	c := clients.Of(r)
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if !clients.FromProxy(r) || err == nil && c == hottype.ClientFromAddr(peer.Addr()) {
		return hottype.Client{}
	}
	return c
}

// originalHost removes the suffix that Envoy adds to the host of a mirrored request, before the port.
func originalHost(host string) string {
	name, port, found := strings.Cut(host, ":")
	cut, mirrored := strings.CutSuffix(name, "-shadow")
	switch {
	case !mirrored:
		return host
	case found:
		return cut + ":" + port
	}
	return cut
}
