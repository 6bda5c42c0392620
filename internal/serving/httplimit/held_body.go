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
	// beforeSlot is how much of a body is in before its request takes a slot.
	beforeSlot = 64 << 10
	// heldRate and heldPatience are the rate and the patience of SlowBodies for bodies of requests with a slot. Who
	// keeps a slot by a body sends beforeSlot bytes first, and heldRate bytes a second after heldPatience.
	heldRate     = 16 << 10
	heldPatience = 5 * time.Second
	// maxBeforeSlots bounds the bytes that all requests without a slot have sent. Beyond it a request takes its slot
	// with a shorter beginning.
	maxBeforeSlots = 16 << 20
)

// AwaitBody reads the beginning of a body, or all of it if it is short, before its request takes a slot of a key, and
// gives the rest a much higher minimum rate, so that a client that drips its body keeps no slot from others. The result
// takes the place of the request, and end must be called when its handler has returned; a later call does nothing. A
// body that fails or comes too slowly is answered here: ok is false. AwaitBody does nothing to requests without a body,
// and to those that need no such slot.
func (g *HTTPGate) AwaitBody(w http.ResponseWriter, r *http.Request) (_ *http.Request, end func(), ok bool) {
	if !hasBody(r) || !g.needsSlot(r) {
		return r, noEnd, true
	}
	ctx, unguard := r.Context(), noEnd
	timed, _ := ctx.Value(bodyOf{}).(*timedBody)
	body := r.Body
	switch {
	case timed != nil:
		timed.hurry()
	case g.cfg.GuardsBodies:
		timed = g.bodies.guard(w, body)
		timed.hurry()
		body, unguard = timed, timed.end
		ctx = context.WithValue(ctx, bodyOf{}, timed)
	default: // body_timeout is 0: bodies may take as long as they like
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

// needsSlot asks the gate. It lets a panic be Decide's to report, which meets it too.
func (g *HTTPGate) needsSlot(r *http.Request) (needs bool) {
	defer func() { _ = recover() }()
	req := g.describe(r, hottype.Client{}, 1)
	needs = g.cfg.Gate.NeedsSlot(g.cfg.Now(), req)
	g.release(req)
	return needs
}

// readFirst reads the first beforeSlot bytes of a body; io.EOF: it has no more. held is what they are counted with.
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

// rejectBody answers a request whose body is the client's fault. The connection ends: the rest of the body would be
// read for a request.
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
