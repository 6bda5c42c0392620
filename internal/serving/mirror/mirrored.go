// Package mirror takes copies of requests from gateways (nginx mirror, Envoy
// request mirroring) and counts them.
//
// What enters is an HTTP request that repeats another one, whose target stands
// in a header (nginx) or is its own (Envoy). What leaves is a count per rule
// that takes it. The response is 204 at once: no client waits for it, nothing is
// decided, no body is read.
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

// Counter receives every request of a key with its client; the client may
// be unknown. AddFrom must not block, and must not keep key. *tally.Tally is
// one.
type Counter interface {
	AddFrom(key []byte, second, n int64, client hottype.Client)
}

// Options say where the original request is found. The zero value takes the
// mirrored request as it is.
type Options struct {
	// URIHeader names the header with the original request target, such as
	// X-Original-URI. A request without it is taken as it is.
	URIHeader string
	// MethodHeader names the header with the original method: nginx mirrors
	// everything by GET.
	MethodHeader string
	// Clients finds the client of the original request. The sender of the copy is
	// a gateway and has to be a trusted proxy to be believed: else, and where
	// it names no client, the client is unknown. nil: no proxy is trusted.
	Clients *httplimit.Clients
	// Standstill notices that this process stood still. Copies that may have waited meanwhile are not counted: they
	// would make keys hot. nil: all are.
	Standstill *wait.Standstill
	// Record is called with each match of a request, before it is counted; nil: it is not.
	Record func(set *rules.Set, m *rules.Match, second int64, target string)
	// Now is the clock that counts are placed by; nil means time.Now.
	Now func() time.Time
}

type Stats struct {
	Requests  uint64 `metric:"hotparam_mirror_requests_total" help:"Copied requests received."`
	Unmatched uint64 `metric:"hotparam_mirror_unmatched_total" help:"Copied requests that no rule counts."`
	Malformed uint64 `metric:"hotparam_mirror_malformed_total" help:"Copied requests counted under a reserved key, because their parameters are out of bounds."`
	LeftOut   uint64 `metric:"hotparam_mirror_left_out_total" help:"Copied requests that waited while this process stood still; not counted."`
}

// Handler counts copies of requests. Make one with New; any number of
// goroutines may use it.
type Handler struct {
	rules   func() *rules.Set
	counter Counter
	opt     Options
	scratch sync.Pool // of *rules.Scratch

	requests, unmatched, malformed, leftOut atomic.Uint64
}

// New builds a handler. rules is asked for every request, so that rules can be
// read anew.
func New(set func() *rules.Set, counter Counter, opt Options) *Handler {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	h := &Handler{rules: set, counter: counter, opt: opt}
	h.scratch.New = func() any { return new(rules.Scratch) }
	return h
}

// ServeHTTP counts and answers 204.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.requests.Add(1)
	if h.opt.Standstill.Recent() {
		h.leftOut.Add(1)
	} else {
		h.count(r)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handler) count(r *http.Request) {
	req := hottype.Request{
		Method: cmp.Or(r.Header.Get(h.opt.MethodHeader), r.Method),
		Host:   originalHost(r.Host),
		Target: cmp.Or(r.Header.Get(h.opt.URIHeader), r.RequestURI),
		Header: r.Header,
		Client: client(r, h.opt.Clients),
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
		h.counter.AddFrom(matches[i].Key, second, 1, who)
	}
}

func (h *Handler) Stats() Stats {
	return Stats{h.requests.Load(), h.unmatched.Load(), h.malformed.Load(), h.leftOut.Load()}
}

// client is who sent the original request, never who sent the copy: all copies
// of many clients come from one gateway.
func client(r *http.Request, clients *httplimit.Clients) hottype.Client {
	c := clients.Of(r)
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if !clients.FromProxy(r) || err == nil && c == hottype.ClientFromAddr(peer.Addr()) {
		return hottype.Client{}
	}
	return c
}

// originalHost removes what Envoy puts behind the host of a mirrored request,
// before the port.
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
