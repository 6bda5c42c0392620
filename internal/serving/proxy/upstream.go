package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// upstream is one place to forward to.
type upstream struct {
	name  string
	url   *url.URL
	cfg   *Config
	proxy *httputil.ReverseProxy

	requests, failures, abandoned atomic.Uint64
}

// bufferPool keeps the buffers through which answers are copied: one each request
// would be most of what a proxy allocates.
type bufferPool struct{ sync.Pool }

// bufferSize is what io.Copy uses.
const bufferSize = 32 << 10

func newBufferPool() *bufferPool {
	return &bufferPool{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

// Get implements httputil.BufferPool.
func (p *bufferPool) Get() []byte { return p.Pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (p *bufferPool) Put(b []byte) { p.Pool.Put((*[bufferSize]byte)(b)) }

func newUpstream(name string, u *url.URL, via http.RoundTripper, cfg *Config) *upstream {
	up := &upstream{name: name, url: u, cfg: cfg}
	up.proxy = &httputil.ReverseProxy{
		Rewrite:      up.rewrite,
		Transport:    via,
		BufferPool:   newBufferPool(),
		ErrorHandler: up.failed,
		ErrorLog:     slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn),
	}
	return up
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.requests.Add(1)
	u.proxy.ServeHTTP(w, r)
}

// Fields by which proxies tell who they forward for.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
	realIP         = "X-Real-Ip"
)

// rewrite makes the outgoing request. ReverseProxy has dropped Forwarded and
// X-Forwarded-* already, and drops query parameters that net/url cannot parse;
// the upstream is to see the query that was judged, so it is put back whole.
func (u *upstream) rewrite(pr *httputil.ProxyRequest) {
	pr.SetURL(u.url)
	pr.Out.URL.RawQuery, pr.Out.URL.ForceQuery = pr.In.URL.RawQuery, pr.In.URL.ForceQuery
	if u.cfg.PreserveHost {
		pr.Out.Host = pr.In.Host
	}
	if !u.cfg.Clients.FromProxy(pr.In) {
		pr.Out.Header.Del(realIP)
		pr.Out.Header.Del(u.cfg.Clients.Header())
		pr.SetXForwarded()
		return
	}
	pr.Out.Header[forwardedFor] = pr.In.Header[forwardedFor]
	pr.SetXForwarded() // appends who is connected
	keep(pr, forwardedHost)
	keep(pr, forwardedProto)
	if _, _, err := net.SplitHostPort(pr.In.RemoteAddr); err != nil {
		keep(pr, forwardedFor) // a unix socket has no address to append
	}
}

// keep passes a field on as the proxy before us sent it, if it did.
func keep(pr *httputil.ProxyRequest, name string) {
	if values := pr.In.Header[name]; len(values) > 0 {
		pr.Out.Header[name] = values
	}
}

// failed answers a request that the upstream did not: 504 when it took too
// long, 502 otherwise. The client learns the kind of failure, and not where the
// upstream is; the log has that and the error itself.
func (u *upstream) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, httplimit.ErrSlowBody) || httplimit.TooSlow(r) {
		u.abandoned.Add(1)
		w.Header().Set("Connection", "close") // the rest of the body would be read for a request
		httplimit.WriteProblem(w, http.StatusRequestTimeout, "The request body came too slowly.")
		return
	}
	if r.Context().Err() != nil {
		u.abandoned.Add(1)
		w.WriteHeader(http.StatusBadGateway) // the client has gone
		return
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		httplimit.WriteProblem(w, http.StatusRequestEntityTooLarge, "The request body is too large.")
		return
	}
	u.failures.Add(1)
	u.cfg.Log.Warn("proxy: upstream failed", "upstream", cmp.Or(u.name, "default"), "host", u.url.Host, "err", err)
	status, why := kind(err)
	httplimit.WriteProblem(w, status, "The upstream gave no answer: "+why+".")
}

// kind describes a failure without the names and addresses of what is behind the proxy.
func kind(err error) (status int, why string) {
	var (
		timeout net.Error
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return http.StatusGatewayTimeout, "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return http.StatusBadGateway, "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return http.StatusBadGateway, "connection closed before the answer"
	case errors.As(err, &dns):
		return http.StatusBadGateway, "host not found"
	case errors.As(err, &cert), errors.As(err, &record):
		return http.StatusBadGateway, "TLS handshake failed"
	}
	return http.StatusBadGateway, "request failed"
}
