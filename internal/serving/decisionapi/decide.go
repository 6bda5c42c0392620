// Package decisionapi answers programs that are not Go services:
//
//	POST /v1/decide  {"method","uri","host","ip","headers":{},"cost":1}
//	            200  {"allowed","reason","rule","key","limit","remaining",
//	                  "retry_after_ms","reset_after_ms","mode"}
//
// The request may also be an array of up to 1000 such objects, answered by an array of verdicts in the same order. A
// decision, allowed or not, has status 200: the status is about the call, "allowed" about the verdict. A body that
// cannot be understood is answered by a problem document with 400, 405 or 413, and no part of it is charged.
//
// The JSON is read strictly, by a reader made for this one shape: encoding/json takes twenty times as long, several
// times as long as a decision. Unknown and repeated fields, wrong types, null, text after the value and strings that
// are not UTF-8 are errors that name the field and the byte. "uri" is required and is the request target as the client
// sent it. If they are missing, method is GET and cost is 1. "ip" is the client: an address, or any name for one.
//
// Responses name the keys of cold requests only if the gate's verdicts do (gate.Config's ColdKeys).
package decisionapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Gate decides about requests, and records the outcomes that other servers report. *gate.Gate is one.
type Gate interface {
	Begin(ctx context.Context, now time.Time, req *hottype.Request, releases bool) verdict.Verdict
	Release(now time.Time, l *verdict.Lease) (held bool)
	Refund(now time.Time, r *verdict.Refund, status int)
	// RecordOutcomes records a gateway's report of n requests that it sent to an upstream, and reports whether a limit
	// follows that upstream.
	RecordOutcomes(now time.Time, upstream string, took time.Duration, status int, n int64) (known bool)
}

// Decider answers POST /v1/decide. Any number of goroutines may use it.
type Decider struct {
	gate        Gate
	scratchPool sync.Pool // of *scratch
	releases    *releases

	checks, denied, rejected atomic.Uint64
}

// Stats are the counters of a decider since it was built.
type Stats struct {
	Checks   uint64 `metric:"hotparam_decision_api_checks_total" help:"Requests decided for other servers."`
	Denied   uint64 `metric:"hotparam_decision_api_denied_total" help:"Requests denied for other servers."`
	Rejected uint64 `metric:"hotparam_decision_api_rejected_total" help:"Malformed requests of other servers."`
}

// Decide returns the handler. The handler ignores the path; mount it at /v1/decide. Decide panics on a nil gate.
func Decide(gate Gate) *Decider {
	if gate == nil {
		panic("decisionapi: Decide: no gate")
	}
	d := &Decider{releases: newReleases(), gate: gate}
	d.scratchPool.New = func() any { return new(scratch) }
	return d
}

func (d *Decider) Stats() Stats {
	return Stats{Checks: d.checks.Load(), Denied: d.denied.Load(), Rejected: d.rejected.Load()}
}

// scratch is the memory of one call. It is pooled, so that a batch allocates little beside its text.
type scratch struct {
	body   bytes.Buffer
	checks []check
	pairs  httplimit.Headers
	req    hottype.Request
	header httplimit.Headers
	out    []byte
}

// maxBody is the length of the longest body in bytes.
const maxBody = 1 << 20

// maxBatch is the length of the longest array.
const maxBatch = 1000

// keepBody is the largest buffer that goes back to the pool.
const keepBody = 1 << 18

func (d *Decider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if fault := hottype.InvalidTargetReason(r.Method, r.RequestURI); fault != "" {
		d.rejectCall(w, http.StatusBadRequest, "The request target has "+fault+".")
		return
	}
	k := d.scratchPool.Get().(*scratch)
	defer d.releaseScratch(k)
	if !d.readBody(w, r, &k.body, maxBody) {
		return
	}
	dec := decoder{s: k.body.String(), checks: k.checks[:0], pairs: k.pairs[:0]}
	batch, err := dec.decode()
	k.checks, k.pairs = dec.checks, dec.pairs
	if err != nil {
		d.rejectCall(w, http.StatusBadRequest, err.Error())
		return
	}
	if batch {
		d.answerAll(w, r, k)
		return
	}
	d.answerOne(w, r, k)
}

func (d *Decider) rejectCall(w http.ResponseWriter, status int, detail string) {
	d.rejected.Add(1)
	httplimit.WriteProblem(w, status, detail)
}

// readBody reads the body of a POST, or responds with the reason why it cannot.
func (d *Decider) readBody(w http.ResponseWriter, r *http.Request, body *bytes.Buffer, most int64) (ok bool) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		d.rejectCall(w, http.StatusMethodNotAllowed, "Ask with POST.")
		return false
	}
	body.Reset()
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	switch {
	case err == nil:
		return true
	case errors.As(err, new(*http.MaxBytesError)):
		d.rejectCall(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is longer than %d bytes.", most))
	case errors.Is(err, httplimit.ErrSlowBody):
		d.rejectCall(w, http.StatusRequestTimeout, "The body came too slowly.")
	default:
		d.rejectCall(w, http.StatusBadRequest, "The body ended early.")
	}
	return false
}

// releaseScratch returns the memory to the pool, unless a huge call has made it huge.
func (d *Decider) releaseScratch(k *scratch) {
	if k.body.Cap() > keepBody || cap(k.out) > 2*keepBody {
		return
	}
	clear(k.checks)
	clear(k.pairs)
	k.req, k.header = hottype.Request{}, nil
	d.scratchPool.Put(k)
}

func (d *Decider) answerOne(w http.ResponseWriter, r *http.Request, k *scratch) {
	k.out = append(d.decideCheck(r, k, 0, k.out[:0]), '\n')
	writeJSON(w, k.out)
}

// answerAll decides the checks one after the other, so that the response depends on their order alone. It stops when
// the client has left.
func (d *Decider) answerAll(w http.ResponseWriter, r *http.Request, k *scratch) {
	k.out = append(k.out[:0], '[')
	for i := range k.checks {
		if i%64 == 63 && r.Context().Err() != nil {
			return
		}
		if i > 0 {
			k.out = append(k.out, ',')
		}
		k.out = d.decideCheck(r, k, i, k.out)
	}
	k.out = append(k.out, ']', '\n')
	writeJSON(w, k.out)
}

// decideCheck decides a check and appends its verdict.
func (d *Decider) decideCheck(r *http.Request, k *scratch, i int, b []byte) []byte {
	c := &k.checks[i]
	k.header = k.pairs[c.from:c.to]
	k.req = hottype.Request{
		Method: c.method, Host: c.host, Target: c.uri, Cost: c.cost,
		Header: &k.header, FromProxy: true, // the caller vouches for the fields, as for the client's address
	}
	httplimit.IdentifyText(&k.req, c.ip)
	v := d.gate.Begin(r.Context(), time.Now(), &k.req, c.holds)
	httplimit.Quote(&v.Verdict)
	d.checks.Add(1)
	if !v.Allowed {
		d.denied.Add(1)
	}
	return d.appendVerdict(b, &v, v.Pass != nil && httplimit.IsHTTPS(k.header.Values("X-Forwarded-Proto")))
}

func writeJSON(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	_, _ = w.Write(body) // a caller who left does not need the response
}

// appendVerdict appends the verdict on one check. "mode" is "shadow" if a limit in shadow mode would have denied, or
// was the only limit. "hot" is present only if a key is hot, "release" only if the request holds a slot, may get a
// refund, or is measured, "wait_ms" only if the caller has to hold the request back before it goes on, "set_cookie" only if the caller
// has to send that field with the denial. tls is true if the client uses TLS.
func (d *Decider) appendVerdict(b []byte, v *verdict.Verdict, tls bool) []byte {
	mode := v.Mode
	if v.WouldDeny {
		mode = hottype.ModeShadow
	}
	b = strconv.AppendBool(append(b, `{"allowed":`...), v.Allowed)
	b = httplimit.AppendJSONString(append(b, `,"reason":`...), v.Reason.String())
	b = httplimit.AppendJSONString(append(b, `,"rule":`...), v.Rule)
	b = httplimit.AppendJSONString(append(b, `,"key":`...), string(v.Key))
	b = strconv.AppendInt(append(b, `,"limit":`...), v.Limit, 10)
	b = strconv.AppendInt(append(b, `,"remaining":`...), v.Remaining, 10)
	if v.Unit != hottype.UnitRequests {
		b = httplimit.AppendJSONString(append(b, `,"unit":`...), v.Unit.String())
	}
	b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), httplimit.Millis(v.RetryAfter), 10)
	b = strconv.AppendInt(append(b, `,"reset_after_ms":`...), httplimit.Millis(v.ResetAfter), 10)
	b = httplimit.AppendJSONString(append(b, `,"mode":`...), string(mode))
	if v.Hot {
		b = append(b, `,"hot":true`...)
	}
	if v.Upstream != "" {
		b = httplimit.AppendJSONString(append(b, `,"upstream":`...), v.Upstream)
	}
	if v.Lease != nil || v.Reports != nil {
		b = httplimit.AppendJSONString(append(b, `,"release":`...), d.releases.writeToken(v))
	}
	if v.Wait > 0 {
		b = strconv.AppendInt(append(b, `,"wait_ms":`...), httplimit.Millis(v.Wait), 10)
	}
	if cookie := httplimit.PassCookie(&v.Verdict, tls); cookie != "" {
		b = httplimit.AppendJSONString(append(b, `,"set_cookie":`...), cookie)
	}
	return append(b, '}')
}
