package forwardauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/clientaddr"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Dialect is the form in which the checks of a listener describe requests.
type Dialect string

// The dialects.
const (
	// Nginx has X-Original-URI, X-Original-Method, X-Original-Host and X-Real-IP. The host has a field of its own
	// because net/http rejects a check with a Host such as a"b, which nginx accepts, before the Handler sees it.
	Nginx Dialect = "nginx"
	// IngressNginx is the form of ingress-nginx with the annotation auth-url: X-Original-URL, which is scheme, host and
	// target, X-Original-Method and X-Real-IP. It passes the X-Original-URI of clients on.
	IngressNginx Dialect = "ingress-nginx"
	// Forwarded has X-Forwarded-Uri, -Method, -Host and -For. The last element of X-Forwarded-For is the
	// gateway's own peer.
	Forwarded Dialect = "forwarded"
	// Path is the method, path and Host of the check itself, behind a prefix.
	Path Dialect = "path"
)

var Dialects = []Dialect{Nginx, IngressNginx, Forwarded, Path}

// endpoint is the path of checks that do not carry the request's path as their own.
const endpoint = "/check"

// errNotFound is the error for a check that was sent to another path than the endpoint.
var errNotFound = errors.New("checks go to " + endpoint)

// requestOf returns the request that a check describes. Its fields are the gateway's word: only gateways can ask, and
// each sets or removes the fields by which a class has priority (docs/gateways.md).
func (h *Handler) requestOf(r *http.Request) (hottype.Request, error) {
	req := hottype.Request{Header: r.Header, FromProxy: true}
	if h.cfg.Dialect == Path {
		target, ok := strings.CutPrefix(r.RequestURI, h.cfg.PathPrefix)
		if !ok || !strings.HasPrefix(target, "/") && target != "*" {
			return req, fmt.Errorf("the path of the check does not begin with the prefix %q of check.path_prefix",
				h.cfg.PathPrefix)
		}
		req.Method, req.Host, req.Target = r.Method, r.Host, target
		// The gateway is the peer of this check. Its own peer is named only in the header of clients.
		h.cfg.Clients.Identify(&req, netip.Addr{}, r.Header.Values)
		return req, nil
	}
	if path, _, _ := strings.Cut(r.RequestURI, "?"); path != endpoint {
		return req, errNotFound
	}
	f := fields{header: r.Header}
	var peer netip.Addr
	switch h.cfg.Dialect {
	case Nginx:
		req.Target, req.Method = f.readText("X-Original-Uri"), f.readText("X-Original-Method")
		if strings.HasPrefix(req.Target, "?") { // nginx' $request_uri of http://host?x=1
			req.Target = "/" + req.Target
		}
		req.Host = f.readOne("X-Original-Host")
		peer = f.parseAddress("X-Real-Ip", f.readText("X-Real-Ip"))
	case IngressNginx:
		req.Host, req.Target = f.readURL("X-Original-Url")
		req.Method = f.readText("X-Original-Method")
		peer = f.parseAddress("X-Real-Ip", f.readText("X-Real-Ip"))
	default:
		req.Target, req.Method = f.readText("X-Forwarded-Uri"), f.readText("X-Forwarded-Method")
		req.Host = f.readOne("X-Forwarded-Host")
		peer = f.parseAddress("X-Forwarded-For", f.lastElement("X-Forwarded-For"))
	}
	if f.err != nil {
		return req, f.err
	}
	// If the gateway's peer is a trusted proxy, its header counts, as on every other listener.
	h.cfg.Clients.Identify(&req, peer, r.Header.Values)
	return req, nil
}

// clientUsesTLS reports whether the client of the request that a check describes uses TLS, as the gateway states.
func (h *Handler) clientUsesTLS(r *http.Request) bool {
	if h.cfg.Dialect == IngressNginx {
		return strings.HasPrefix(r.Header.Get("X-Original-Url"), "https://")
	}
	return httplimit.IsHTTPS(r.Header["X-Forwarded-Proto"])
}

// fields reads the fields that the gateway wrote and keeps the first error.
type fields struct {
	header http.Header
	err    error
}

// readOne returns the value of a field that must occur once. A second one would be the client's, which the gateway has
// to replace.
func (f *fields) readOne(name string) string {
	values := f.header[name]
	if len(values) == 1 {
		return values[0]
	}
	f.fail(fmt.Errorf("%s occurs %d times, it must occur once; the gateway must set it", name, len(values)))
	return ""
}

// readText returns the value of a field that must occur once and not be empty.
func (f *fields) readText(name string) string {
	s := f.readOne(name)
	if s == "" {
		f.fail(fmt.Errorf("%s is empty; the gateway must set it", name))
	}
	return s
}

// readURL returns host and target of a URL that the gateway joined of scheme, Host and target, all as received. nginx
// accepts no Host with a slash, so the first slash after the scheme begins the target. A question mark before it may
// belong to the Host a?b or to the target of http://host?x=1, so the request is then unknown.
func (f *fields) readURL(name string) (host, target string) {
	text := f.readText(name)
	_, rest, ok := strings.Cut(text, "://")
	at := strings.IndexByte(rest, '/')
	if !ok || at < 0 || strings.Contains(rest[:at], "?") {
		f.fail(fmt.Errorf("%s is not a URL with host and path; the gateway must set it", name))
		return "", ""
	}
	return rest[:at], rest[at:]
}

// lastElement returns the last element of a list that may have several lines.
func (f *fields) lastElement(name string) string {
	values := f.header[name]
	if len(values) == 0 {
		return f.readOne(name)
	}
	list := values[len(values)-1]
	return list[strings.LastIndexByte(list, ',')+1:]
}

// parseAddress returns the address of the gateway's peer. For a peer without an address nginx writes "unix:", for which
// it returns an invalid one.
func (f *fields) parseAddress(name, text string) netip.Addr {
	a, ok := clientaddr.Parse(text)
	if !ok && text != "unix:" {
		f.fail(fmt.Errorf("%s names no address; the gateway must set it", name))
	}
	return a
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}
