package hotparam

import (
	"context"
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// Middleware protects a handler: each request is counted and judged before next receives it. A request that is over a
// limit is answered 429 with Retry-After, RateLimit fields and a problem+json body. A hot key whose rule has a cache is
// answered from the cache. next receives the server's own ResponseWriter, or a thin wrapper of it if limits adapt or
// responses grant classes, so flushing and hijacking work as before, except if the cache fetches a response for all
// clients. It panics if next is nil.
func (p *Pipeline) Middleware(next http.Handler) http.Handler {
	p.mustBeBuilt()
	checkHandler(next)
	return p.layer.Wrap(next)
}

// MiddlewareWith does the same as Middleware, with options. A client that Options.Client names is known to the handler
// and never answered from the cache, which has one memory for all middleware of a pipeline. It panics on options
// without a meaning, such as the status 200, and on a nil handler.
func (p *Pipeline) MiddlewareWith(o Options[Exchange]) func(http.Handler) http.Handler {
	p.mustBeBuilt()
	answers := httplimit.MustResponder(o.Status, o.Headers, o.HideLimitHeaders, o.ExposeHeaders)
	if o.Deny != nil {
		// no caller takes the error
		answers.Deny = func(w http.ResponseWriter, r *http.Request, v *hottype.Verdict) {
			_ = o.Deny(Exchange{w, r}, v)
		}
	}
	options := p.options
	options.Answers, options.SharedCache, options.Forwards = answers, p.layer.Cache(), o.Forwards
	options.InContext = o.InContext
	asks := o.Client != nil || o.Cost != nil
	if asks {
		options.Client = func(r *http.Request) Client { return requestOptionsOf(r).client }
		options.Cost = func(r *http.Request) int64 { return requestOptionsOf(r).cost }
	}
	layer := middleware.New(p.parts.Gate, options)
	return func(next http.Handler) http.Handler {
		checkHandler(next)
		limited, unjudged := layer.Wrap(next), layer.Unjudged(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := Exchange{w, r}
			if o.Skip != nil && o.Skip(x) {
				unjudged.ServeHTTP(w, r)
				return
			}
			if asks {
				client, err := httplimit.NameClient(x, o.Client, o.OnClientError)
				if err != nil {
					return // OnClientError has answered
				}
				said := requestOptions{client: client}
				if o.Cost != nil {
					said.cost = o.Cost(x)
				}
				r = r.WithContext(context.WithValue(r.Context(), requestOptionsKey{}, said))
			}
			limited.ServeHTTP(w, r)
		})
	}
}

// FromContext returns the verdict on the request that a handler serves, and the client of the request, from the
// context of the request. It reports whether they are there: with Options.InContext they are, unless Skip skipped the
// request, or the response cache fetches the response for all clients.
func FromContext(ctx context.Context) (hottype.JudgedRequest, bool) { return httplimit.JudgedFrom(ctx) }

// requestOptions holds the client and the cost that the options found for a request. It is in the context, because the
// cache needs it again when it fetches a response.
type requestOptions struct {
	client Client
	cost   int64
}

type requestOptionsKey struct{}

func requestOptionsOf(r *http.Request) requestOptions {
	a, _ := r.Context().Value(requestOptionsKey{}).(requestOptions)
	return a
}
