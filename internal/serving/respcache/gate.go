package respcache

import (
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Left is a request that a gate leaves to the cache.
type Left struct {
	// Verdict has Serve set.
	Verdict hottype.Verdict
	// Count counts the request. The cache calls it with the last verdict, at most once.
	Count func(last *hottype.Verdict)
}

// Gate decides about what the cache cannot answer. *httplimit.SafeGate is one.
type Gate interface {
	// ChargeKeys decides whether a request may go to the handler, by the limits of its keys.
	ChargeKeys(r *http.Request) hottype.Verdict
	// Refunding gives the handler for a request that ChargeKeys admitted: it may get back what
	// it took.
	Refunding(v *hottype.Verdict, next http.Handler) http.Handler
}
