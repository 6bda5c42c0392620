package httplimit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	// beforeSlot is the number of bytes of a body that are read before its request takes a slot.
	beforeSlot = 64 << 10
	// heldRate and heldPatience are the rate and the patience of SlowBodies for bodies of requests with a slot. A
	// client that keeps a slot by its body has to send beforeSlot bytes first, and heldRate bytes a second after
	// heldPatience.
	heldRate     = 16 << 10
	heldPatience = 5 * time.Second
	// maxBeforeSlots bounds the bytes that are kept for all requests without a slot. Beyond it a request takes its slot
	// with a shorter beginning.
	maxBeforeSlots = 16 << 20
)

// AwaitBody reads the beginning of a body, or all of it if it is short, before its request takes a slot of a key, and
// sets a much higher minimum rate for the rest, so that a client that drips its body keeps no slot from others. The
// returned request replaces r, and end must be called when its handler has returned; a later call does nothing. If the
// body fails or comes too slowly, AwaitBody answers the request and returns false. It does nothing to requests that
// have no body, or need no such slot.
func (g *HTTPGate) AwaitBody(w http.ResponseWriter, r *http.Request) (_ *http.Request, end func(), ok bool) {
	if !hasBody(r) || !g.needsSlot(r) {
		return r, noEnd, true
	}
	ctx, unguard := r.Context(), noEnd
	timed, _ := ctx.Value(bodyKey{}).(*timedBody)
	body := r.Body
	switch {
	case timed != nil:
		timed.setHeldRate()
	case g.cfg.GuardsBodies:
		timed = g.bodies.guardBody(w, body)
		timed.setHeldRate()
		body, unguard = timed, timed.detachConn
		ctx = context.WithValue(ctx, bodyKey{}, timed)
	default: // body_timeout is 0, so bodies may take any time
		return r, noEnd, true
	}
	first, held, err := g.readFirst(body)
	if err != nil && !errors.Is(err, io.EOF) {
		g.beforeSlots.Add(-held)
		unguard()
		rejectBody(w, err)
		return r, noEnd, false
	}
	var whole io.Reader = bytes.NewReader(first)
	if err == nil {
		whole = io.MultiReader(whole, body)
	}
	r = r.WithContext(ctx)
	delete(r.Header, "Expect") // reading has answered it
	r.Body = struct {
		io.Reader
		io.Closer
	}{whole, body}
	return r, sync.OnceFunc(func() { g.beforeSlots.Add(-held); unguard() }), true
}

func noEnd() {}

// needsSlot asks the gate. It ignores a panic, because Decide meets and reports the same one.
func (g *HTTPGate) needsSlot(r *http.Request) (needs bool) {
	defer func() { _ = recover() }()
	req := g.gateRequest(r, hottype.Client{}, 1)
	needs = g.cfg.Gate.NeedsSlot(g.cfg.Now(), req)
	g.releaseRequest(req)
	return needs
}

// readFirst reads the first beforeSlot bytes of a body. The error is io.EOF if the body has no more. held is the number
// of bytes that were counted for them.
func (g *HTTPGate) readFirst(body io.Reader) (first []byte, held int64, err error) {
	for err == nil && len(first) < beforeSlot {
		if len(first) == cap(first) {
			more := min(max(4<<10, 3*cap(first)), beforeSlot-cap(first))
			if g.beforeSlots.Add(int64(more)) > maxBeforeSlots {
				g.beforeSlots.Add(-int64(more))
				break
			}
			held += int64(more)
			first = append(make([]byte, 0, cap(first)+more), first...)
		}
		var n int
		n, err = body.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
	}
	return first, held, err
}

// rejectBody answers a request whose body is the client's fault. It ends the connection, because the rest of the body
// would be read as a request.
func rejectBody(w http.ResponseWriter, err error) {
	w.Header().Set("Connection", "close")
	switch {
	case errors.Is(err, ErrSlowBody):
		WriteProblem(w, http.StatusRequestTimeout, "The request body came too slowly.")
	case errors.As(err, new(*http.MaxBytesError)):
		WriteProblem(w, http.StatusRequestEntityTooLarge, "The request body is too large.")
	default:
		WriteProblem(w, http.StatusBadRequest, "The request body could not be read.")
	}
}
