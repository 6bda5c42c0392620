package httplimit

import (
	"context"
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// judgedKey is the key of a *hottype.JudgedRequest in the context of a request. A nil pointer marks a request whose
// response is for all clients.
type judgedKey struct{}

// JudgedRequest returns a verdict with the client of its request. Connection and header identify the client if named is
// the zero value.
func (c *Clients) JudgedRequest(r *http.Request, named hottype.Client, v *hottype.Verdict) *hottype.JudgedRequest {
	j := &hottype.JudgedRequest{Verdict: *v, Client: named}
	if named.IsZero() {
		j.Client = c.Of(r)
	}
	return j
}

// WithJudged returns ctx with j, for JudgedFrom. It changes nothing below ForAllClients.
func WithJudged(ctx context.Context, j *hottype.JudgedRequest) context.Context {
	if outer, ok := ctx.Value(judgedKey{}).(*hottype.JudgedRequest); ok && outer == nil {
		return ctx
	}
	return context.WithValue(ctx, judgedKey{}, j)
}

// JudgedFrom returns the value of WithJudged in ctx, and reports whether there is one.
func JudgedFrom(ctx context.Context) (hottype.JudgedRequest, bool) {
	j, _ := ctx.Value(judgedKey{}).(*hottype.JudgedRequest)
	if j == nil {
		return hottype.JudgedRequest{}, false
	}
	return *j, true
}

// ForAllClients returns the context of a request whose response all clients get. JudgedFrom finds nothing in it, so
// that no handler writes one client into the response for the others.
func ForAllClients(ctx context.Context) context.Context {
	return context.WithValue(ctx, judgedKey{}, (*hottype.JudgedRequest)(nil))
}
