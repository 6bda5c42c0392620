package respcache

import (
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Gate decides about what the cache cannot answer, and hears what became of each request.
// *httplimit.SafeGate is one.
type Gate interface {
	// ChargeKeys decides whether a request may go to the handler, by the limits of its keys.
	ChargeKeys(r *http.Request) hottype.Verdict
	// Refunding gives the handler for a request that ChargeKeys admitted: it may get back what
	// it took.
	Refunding(v *hottype.Verdict, next http.Handler) http.Handler
	// CountServed counts a request once, by its last verdict.
	CountServed(r *http.Request, v *hottype.Verdict)
}
