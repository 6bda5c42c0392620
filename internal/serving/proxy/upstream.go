package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// upstream is one target of forwarded requests.
type upstream struct {
	name  string
	url   *url.URL
	base  string // prefix of request paths, encoded, without a slash at its end
	h2c   bool
	cfg   *Config
	gate  *httplimit.HTTPGate
	proxy *httputil.ReverseProxy

	requests, failures, abandoned atomic.Uint64
	health                        health
}

// bufferPool keeps the buffers through which responses are copied, because a new buffer for each request would be most
// of the memory that a proxy allocates.
type bufferPool struct{ sync.Pool }

// flushAfter is how long a part of a response of known length waits for the next part. Most such responses are complete
// by then, and are sent in one piece. A response of unknown length is not held at all.
const flushAfter = 5 * time.Millisecond

// bufferSize is the size that io.Copy uses.
const bufferSize = 32 << 10

func newBufferPool() *bufferPool {
	return &bufferPool{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

func (p *bufferPool) Get() []byte { return p.Pool.Get().(*[bufferSize]byte)[:] }

func (p *bufferPool) Put(b []byte) { p.Pool.Put((*[bufferSize]byte)(b)) }

func (p *Proxy) newUpstream(name string, u *url.URL, via http.RoundTripper) *upstream {
	up := &upstream{name: name, url: u, base: strings.TrimSuffix(u.EscapedPath(), "/"), cfg: &p.cfg, gate: p.gate}
	up.proxy = &httputil.ReverseProxy{
		Rewrite:        up.rewriteRequest,
		Transport:      via,
		ModifyResponse: up.handleResponse,
		BufferPool:     newBufferPool(),
		ErrorHandler:   up.answerFailure,
		FlushInterval:  flushAfter,
		ErrorLog:       logbound.Std(p.cfg.Log, slog.LevelWarn, "proxy: an answer of the upstream could not be passed on"),
	}
	return up
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.requests.Add(1)
	if r.Body != nil && r.ContentLength != 0 {
		b := &clientBody{ReadCloser: r.Body, ctx: r.Context()}
		ctx := context.WithValue(b.ctx, clientBodyKey{}, b)
		if !u.h2c && httplimit.OutlivedClient(b.ctx) != nil {
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: b.gotConn})
		}
		r = r.WithContext(ctx)
		r.Body = b
	}
	u.proxy.ServeHTTP(&answerWriter{ResponseWriter: w, header: http.Header{}}, r)
	httplimit.DropGrantTrailer(w.Header())
}

// Fields in which proxies name the client, host and scheme of the requests that they forward.
const (
	forwarded      = "Forwarded"
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
	realIP         = "X-Real-Ip"
)

// rewriteRequest makes the outgoing request: the target and the fields that were judged, and the fields about the
// client. dropFields has already removed such fields of an untrusted peer.
func (u *upstream) rewriteRequest(pr *httputil.ProxyRequest) {
	out, target := pr.Out.URL, originForm(pr.In)
	if target != "*" {
		target = u.base + target
	}
	out.Scheme, out.Host, pr.Out.Host = u.url.Scheme, u.url.Host, ""
	if strings.HasPrefix(target, "//") { // an opaque URL would take it for the authority
		out.RawQuery, out.ForceQuery = pr.In.URL.RawQuery, pr.In.URL.ForceQuery
	} else {
		out.Opaque, out.RawQuery, out.ForceQuery = target, "", false
	}
	if u.cfg.PreserveHost {
		pr.Out.Host = pr.In.Host
	}
	pr.Out.Header[forwardedFor] = pr.In.Header[forwardedFor]
	pr.SetXForwarded() // appends the connected peer
	keepField(pr, forwarded)
	keepField(pr, forwardedHost)
	keepField(pr, forwardedProto)
	if _, _, err := net.SplitHostPort(pr.In.RemoteAddr); err != nil {
		keepField(pr, forwardedFor) // a unix socket has no address to append
	}
}

// keepField passes a field on unchanged if the proxy before this one sent it.
func keepField(pr *httputil.ProxyRequest, name string) {
	if values := pr.In.Header[name]; len(values) > 0 {
		pr.Out.Header[name] = values
	}
}

// handleResponse is called when the upstream responds.
func (u *upstream) handleResponse(res *http.Response) error {
	switch {
	case res.StatusCode < 100:
		return fmt.Errorf("proxy: %d is not a status", res.StatusCode)
	case res.StatusCode == http.StatusNoContent:
		delete(res.Header, "Content-Length") // some clients would wait for the body
	}
	u.gate.ReplaceGrant(res.Header, httplimit.IsHTTPS(res.Request.Header[forwardedProto]))
	u.health.record(u.cfg.now(), res.StatusCode < http.StatusInternalServerError)
	if body := bodyOf(res.Request); body != nil {
		body.answerEarly(res)
	}
	client := httplimit.OutlivedClient(res.Request.Context())
	if client == nil {
		return nil
	}
	if client.Err() != nil {
		u.abandoned.Add(1)
	}
	if res.StatusCode != http.StatusSwitchingProtocols && !isEventStream(res) {
		res.Body = &drainedBody{res.Body, client}
	}
	return nil
}

// isEventStream reports whether a response may have no end.
func isEventStream(res *http.Response) bool {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// answerFailure answers a request to which the upstream did not respond: with 504 if it took too long, with 502
// otherwise, and with the matching status for faults of the client. The client learns the kind of failure, but not the
// address of the upstream; the log has the address and the error itself.
func (u *upstream) answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, httplimit.ErrSlowBody) || httplimit.TooSlow(r):
		u.rejectBody(w, http.StatusRequestTimeout, "The request body came too slowly.")
	case errors.As(err, new(*http.MaxBytesError)):
		httplimit.WriteProblem(w, http.StatusRequestEntityTooLarge, "The request body is too large.")
	case bodyOf(r).hasFailed(r.Context()):
		bodyOf(r).awaitEnd()
		u.rejectBody(w, http.StatusBadRequest, "The request body could not be read.")
	case r.Context().Err() != nil:
		u.abandoned.Add(1)
		w.WriteHeader(http.StatusBadGateway) // the client has left
	default:
		u.failures.Add(1)
		u.health.record(u.cfg.now(), false)
		u.cfg.Log.Warn("proxy: upstream failed", "upstream", cmp.Or(u.name, "default"), "host", u.url.Host, "err", err)
		status, why := describeFailure(err)
		httplimit.WriteProblem(w, status, "The upstream gave no answer: "+why+".")
	}
}

// rejectBody answers a request whose body is the client's fault. It ends the connection, because the rest of the body
// would be read as a request.
func (u *upstream) rejectBody(w http.ResponseWriter, status int, why string) {
	u.abandoned.Add(1)
	w.Header().Set("Connection", "close")
	httplimit.WriteProblem(w, status, why)
}

// describeFailure describes a failure without the names and addresses behind the proxy.
func describeFailure(err error) (status int, why string) {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return http.StatusGatewayTimeout, "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return http.StatusBadGateway, "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return http.StatusBadGateway, "connection closed before the answer"
	case errors.As(err, new(*net.DNSError)):
		return http.StatusBadGateway, "host not found"
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.RecordHeaderError)):
		return http.StatusBadGateway, "TLS handshake failed"
	}
	return http.StatusBadGateway, "request failed"
}
