package respcache

import (
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Invalidating gives the handler for a request that does not come to Serve. A request of a
// method that may change its target takes the stored answers for that out when the handler
// answers it without an error, and those for its Location and Content-Location (RFC 9111
// section 4.4).
func (c *Cache) Invalidating(next http.Handler, r *http.Request, v *hottype.Verdict, scope string) http.Handler {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return next
	}
	if c.fetched.Load() == 0 { // what is being fetched now counts too: it may be of before the change
		return next
	}
	class := v.Class
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httplimit.ServeWithStatus(w, r, next, func(status int) {
			if status >= 200 && status < 400 {
				c.invalidate(w.Header(), r, scope, class)
			}
		})
	})
}

// invalidate takes out what an answer with these fields made old.
func (c *Cache) invalidate(h http.Header, r *http.Request, scope, class string) {
	c.store.invalidate(appendTarget(nil, r, scope, class))
	for _, name := range []string{"Location", "Content-Location"} {
		u, err := r.URL.Parse(h.Get(name))
		if err != nil || h.Get(name) == "" || u.Host != "" && u.Host != r.Host {
			continue // another origin's are not for this one to change
		}
		other := *r
		other.RequestURI = u.RequestURI()
		c.store.invalidate(appendTarget(nil, &other, scope, class))
	}
}
