package httplimit

import (
	"net/http"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

const (
	fieldSetCookie = "Set-Cookie"
	fieldProto     = "X-Forwarded-Proto"
)

// PassCookie returns the value of the Set-Cookie field by which a denial hands its visitor pass to the client, or "" if
// the verdict is no denial or has no pass. tls is true if the client uses TLS.
func PassCookie(v *hottype.Verdict, tls bool) string {
	if v.Pass == "" || v.Allowed {
		return ""
	}
	return visitorpass.SetCookie(v.Pass, tls, visitorpass.Life)
}

// UsesTLS reports whether the client of a denied request uses TLS. It returns false at once if the verdict has no pass,
// because only its cookie depends on it.
func (a *Responder) UsesTLS(r *http.Request, v *hottype.Verdict) bool {
	return v.Pass != "" && a.Clients.IsTLS(r)
}

// IsTLS reports whether the client of a request uses TLS. A trusted proxy that states the scheme knows better than the
// connection, which is its own.
func (c *Clients) IsTLS(r *http.Request) bool {
	if lines := r.Header[fieldProto]; len(lines) > 0 && c.FromProxy(r) {
		return IsHTTPS(lines)
	}
	return r.TLS != nil
}

// IsHTTPS reports whether lines of X-Forwarded-Proto are one that names https.
func IsHTTPS(lines []string) bool { return len(lines) == 1 && strings.EqualFold(lines[0], "https") }

// forbidStoring makes a response one that no shared cache stores, because it sets the cookie of a pass. Caches obey
// fields of their own before Cache-Control.
func forbidStoring(h http.Header) {
	for name := range h {
		if strings.HasSuffix(name, "Cache-Control") || name == "Surrogate-Control" || name == "X-Accel-Expires" {
			delete(h, name)
		}
	}
	h["Cache-Control"] = []string{"private, no-store"}
}
