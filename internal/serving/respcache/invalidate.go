package respcache

import (
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Invalidating gives the ResponseWriter for a request that does not come to Serve. One of a
// method that may change its target takes the stored answers for that out when the handler
// answers it without an error, and those for its Location and Content-Location (RFC 9111
// section 4.4).
func (c *Cache) Invalidating(w http.ResponseWriter, r *http.Request, v *hottype.Verdict,
	scope string) http.ResponseWriter {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return w
	}
	if c.fetched.Load() == 0 { // what is being fetched now counts too: it may be of before the change
		return w
	}
	return &invalidating{ResponseWriter: w, cache: c, request: r, scope: scope, class: v.Class}
}

// invalidating is the ResponseWriter of a request that may change what is stored.
type invalidating struct {
	http.ResponseWriter
	cache        *Cache
	request      *http.Request
	scope, class string
	done         bool
}

// Unwrap lets http.ResponseController find what the server's own writer can do.
func (i *invalidating) Unwrap() http.ResponseWriter { return i.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (i *invalidating) WriteHeader(status int) {
	if !i.done && status >= 200 {
		i.done = true
		if status < 400 {
			i.invalidate()
		}
	}
	i.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (i *invalidating) Write(p []byte) (int, error) {
	if !i.done {
		i.WriteHeader(http.StatusOK)
	}
	return i.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, for handlers that look for it without http.ResponseController.
func (i *invalidating) Flush() {
	if !i.done {
		i.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(i.ResponseWriter).Flush() // a writer that cannot is not flushed
}

func (i *invalidating) invalidate() {
	r := i.request
	i.cache.store.invalidate(appendTarget(nil, r, i.scope, i.class))
	for _, name := range []string{"Location", "Content-Location"} {
		u, err := r.URL.Parse(i.Header().Get(name))
		if err != nil || i.Header().Get(name) == "" || u.Host != "" && u.Host != r.Host {
			continue // another origin's are not for this one to change
		}
		other := *r
		other.RequestURI = u.RequestURI()
		i.cache.store.invalidate(appendTarget(nil, &other, i.scope, i.class))
	}
}
