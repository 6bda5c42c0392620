package httplimit

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
)

const (
	// FieldGrant means nothing in requests. It is removed from them, because some handlers repeat the fields of the
	// request.
	FieldGrant = hottype.FieldGrant

	fieldCookie, fieldSetCookie, fieldProto = "Cookie", "Set-Cookie", "X-Forwarded-Proto"
)

// PassCookie returns the value of the Set-Cookie field by which a denial hands its visitor pass to the client, or "" if
// the verdict is no denial or has no pass. tls is true if the client uses TLS.
func PassCookie(v *hottype.Verdict, tls bool) string {
	if v.Pass == nil || v.Allowed {
		return ""
	}
	return visitorpass.SetCookie(v.Pass.String(), tls, visitorpass.Life)
}

// UsesProofs reports whether clients prove classes of the rules by cookies, and whether responses grant some of them.
// Requests then need StripProofs, and responses ReplaceGrant. Without such a class cookies stay, because they may be
// passes of another limiter, behind this one.
func (g *HTTPGate) UsesProofs() (cookies, grants bool) { return g.cfg.Gate.UsesProofs() }

// StripProofs removes the cookies by which clients prove classes, and FieldGrant, from a request that was decided, so
// that neither a response cache nor a handler sees them. It returns the lines of Cookie as they were, or nil if it
// removed no cookie.
func StripProofs(r *http.Request) (cookies []string) {
	delete(r.Header, FieldGrant)
	if cookies = r.Header[fieldCookie]; !visitorpass.Strip(r.Header) {
		return nil
	}
	return cookies
}

// withCookies is the header of a request as it was before StripProofs.
type withCookies struct {
	http.Header
	cookies []string
}

func (h withCookies) Get(name string) string {
	if strings.EqualFold(name, fieldCookie) {
		return h.cookies[0]
	}
	return h.Header.Get(name)
}

func (h withCookies) Values(name string) []string {
	if strings.EqualFold(name, fieldCookie) {
		return h.cookies
	}
	return h.Header.Values(name)
}

// PendingGrant is a response that may grant a class, of a framework that calls its handlers itself. A nil PendingGrant
// does nothing.
type PendingGrant struct {
	gate   *HTTPGate
	header http.Header // of the response
	tls    bool
	once   sync.Once
}

// GrantOf returns the grant of the response to a request, or nil if no response grants a class. It removes FieldGrant
// from the request.
func (g *HTTPGate) GrantOf(w http.ResponseWriter, r *http.Request) *PendingGrant {
	if _, grants := g.UsesProofs(); !grants {
		return nil
	}
	delete(r.Header, FieldGrant)
	return &PendingGrant{gate: g, header: w.Header(), tls: g.cfg.Clients.IsTLS(r)}
}

// ResponseStarted calls ReplaceGrant. It has to be called before the header is sent; only the first call counts.
func (p *PendingGrant) ResponseStarted() {
	if p != nil {
		p.once.Do(func() { p.gate.ReplaceGrant(p.header, p.tls) })
	}
}

// Done removes the field of a handler that panicked before its response, which then grants nothing.
func (p *PendingGrant) Done() {
	if p != nil {
		p.once.Do(func() { delete(p.header, FieldGrant) })
	}
}

// Granting returns a handler that calls next and ReplaceGrant for its responses.
func (g *HTTPGate) Granting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ServeWithStatus(w, r, next, func(int) { g.ReplaceGrant(w.Header(), g.cfg.Clients.IsTLS(r)) })
		DropGrantTrailer(w.Header())
	})
}

// DropGrantTrailer removes FieldGrant from the trailers of a response whose handler has returned.
func DropGrantTrailer(h http.Header) {
	delete(h, FieldGrant)
	delete(h, http.TrailerPrefix+FieldGrant)
}

// ReplaceGrant replaces FieldGrant in the header of a response. If the rules let responses grant the class, the
// response sets the cookie of its pass, and no cache stores it. An empty field deletes the cookie. Any other, such as
// an unknown class or two classes, is removed alone. tls is true if the client uses TLS.
func (g *HTTPGate) ReplaceGrant(h http.Header, tls bool) {
	classes, ok := h[FieldGrant]
	if !ok {
		return
	}
	delete(h, FieldGrant)
	cookies := slices.Clip(h[fieldSetCookie])
	switch {
	case len(classes) != 1:
		return
	case classes[0] != "":
		pass := g.cfg.Gate.Grant(g.cfg.Now(), classes[0])
		if pass == "" {
			return
		}
		h[fieldSetCookie] = append(cookies, visitorpass.SetCookie(pass, tls, visitorpass.ClassLife))
	case tls:
		cookies = append(cookies, visitorpass.DeleteClass(true)) // beside the cookie of a grant without TLS
		fallthrough
	default:
		h[fieldSetCookie] = append(cookies, visitorpass.DeleteClass(false))
	}
	forbidStoring(h)
}

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

// UsesTLS reports whether the client of a denied request uses TLS. It returns false at once if the verdict has no pass,
// because only its cookie depends on it.
func (a *Responder) UsesTLS(r *http.Request, v *hottype.Verdict) bool {
	return v.Pass != nil && a.Clients.IsTLS(r)
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
