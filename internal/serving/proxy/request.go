package proxy

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// accept brings a request into the form that its upstream will get, before anything decides by it. It answers one that
// cannot be sent on as it would be judged, and returns false.
func (p *Proxy) accept(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodConnect { // judged by one target and sent with another
		p.connects.Add(1)
		httplimit.WriteProblem(w, http.StatusMethodNotAllowed, "This server is not a tunnel.")
		return false
	}
	fault := hottype.InvalidTargetReason(r.Method, r.RequestURI)
	switch {
	case fault != "":
		fault = "target has " + fault
	case !sendablePath(r):
		fault = "target has two slashes in front and bytes that must be encoded"
	case !httplimit.SendableHost(r.Host):
		fault = "host is not valid"
	default:
		if r.Host == "" && p.cfg.PreserveHost {
			r.Host = p.upstreams[""].url.Host // as the transport would send it
		}
		p.dropFields(r)
		return true
	}
	p.rejected.Add(1)
	httplimit.WriteProblem(w, http.StatusBadRequest, "The request "+fault+".")
	return false
}

// sendablePath reports whether rewrite can send the path of a request byte for byte. An opaque URL cannot begin with
// "//", and any other URL is encoded again unless it is valid.
func sendablePath(r *http.Request) bool {
	target := originForm(r)
	if !strings.HasPrefix(target, "//") {
		return true
	}
	path, _, _ := strings.Cut(target, "?")
	return r.URL.EscapedPath() == path
}

// originForm returns the target of a request without scheme and authority, byte for byte.
func originForm(r *http.Request) string {
	target := httplimit.Target(r)
	if strings.HasPrefix(target, "/") || target == "*" {
		return target
	}
	path, _ := (&hottype.Request{Target: target}).SplitTarget()
	if i := strings.IndexByte(target, '?'); i >= 0 {
		return path + target[i:]
	}
	return path
}

// dropFields removes the fields that upstreams must not get: hop-by-hop fields, fields in which only trusted proxies or
// upstreams may write, and fields whose names have a "_". Gateways of the CGI family cannot distinguish the latter from
// names with a "-", and gunicorn takes SCRIPT_NAME off the path.
func (p *Proxy) dropFields(r *http.Request) {
	h := r.Header
	for name, values := range h {
		if strings.IndexByte(name, '_') >= 0 {
			delete(h, name)
			p.dropped.Add(1)
		}
		for i, v := range values {
			if trimmed := textproto.TrimString(v); len(trimmed) < len(v) {
				values[i] = trimmed // HTTP/2 clients may send " a", which the transport trims
			}
		}
	}
	delete(h, httplimit.FieldGrant)
	p.cfg.Clients.DropHopByHop(h)
	if p.cfg.Clients.FromProxy(r) {
		return
	}
	for _, name := range [...]string{forwarded, forwardedFor, forwardedHost, forwardedProto, realIP} {
		delete(h, name)
	}
	delete(h, p.cfg.Clients.Header())
}
