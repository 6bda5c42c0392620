package proxy

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// Config holds the settings of a proxy.
type Config struct {
	// Upstreams holds the upstreams by name. The upstream named "" is the usual one and required. Each is an http,
	// https or h2c URL (HTTP/2 without TLS) without a query. A path in it goes before the request's.
	Upstreams map[string]*url.URL
	// Route returns the name of the upstream for a class ("" is everybody). If Upstreams lacks it, the request goes to
	// the usual upstream and is counted. If Route is nil, everything goes to the usual one. gate.Gate's Upstream is
	// such a function.
	Route func(class string) string
	// PreserveHost passes on the Host for which the client asked, instead of the upstream's own.
	PreserveHost bool
	// Clients finds the client of a request behind proxies. If it is nil, the connected peer is the client.
	Clients *httplimit.Clients
	// Answers configure the responses to clients.
	Answers httplimit.Responder
	// DialTimeout bounds connecting to an upstream; 0 means 3 s.
	DialTimeout time.Duration
	// HeaderTimeout bounds the wait for the header of the response; 0 means 30 s, negative means no bound. A request
	// that holds a slot goes on for that long (without a bound: 30 s) after its client has left.
	HeaderTimeout time.Duration
	// IdleTimeout is how long unused connections to upstreams are kept; 0 means 90 s. At most 256 are kept for each
	// upstream.
	IdleTimeout time.Duration
	// TLS verifies https upstreams and identifies the proxy to them. If it is nil, the authorities that the system
	// trusts verify them. It must not be changed afterwards.
	TLS *tls.Config
	// Transport replaces the transports that the fields above describe.
	Transport http.RoundTripper
	// Cache configures the responses for hot keys whose rule has a cache. The proxy sets its Gate, Answers, Now and
	// Log.
	Cache respcache.Config
	// Now is the clock of the gate; nil means time.Now.
	Now func() time.Time
	// Log receives failures of upstreams; nil discards them.
	Log *slog.Logger
}

// check returns an error for the first mistake in the configuration.
func (c *Config) check() error {
	if err := c.Answers.Check(); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if c.Upstreams[""] == nil {
		return errors.New("proxy: no usual upstream (one with the name \"\")")
	}
	for name, u := range c.Upstreams {
		switch {
		case u == nil:
			return fmt.Errorf("proxy: upstream %q: <nil> is not a URL like http://host:port", name)
		case u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != schemeH2C:
			return fmt.Errorf("proxy: upstream %q: %q is not a URL like http://host:port", name, u.Redacted())
		case u.RawQuery != "" || u.Fragment != "":
			return fmt.Errorf("proxy: upstream %q: %q must have no query and no fragment", name, u.Redacted())
		}
	}
	return nil
}

// abandonedFor returns how long a request that holds a slot goes on after its client has left.
func (c *Config) abandonedFor() time.Duration {
	return cmp.Or(max(c.HeaderTimeout, 0), httplimit.AbandonedFor)
}

// schemeH2C is the scheme of upstreams that speak HTTP/2 without TLS.
const schemeH2C = "h2c"

// newTransport returns the transport to the upstreams. It uses no proxy from the environment, and passes bodies on as
// the upstream sent them, compressed or not.
func (c *Config) newTransport(h2c bool) http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	t := &http.Transport{
		DialContext:           dialFunc(&net.Dialer{Timeout: cmp.Or(c.DialTimeout, 3*time.Second)}),
		TLSHandshakeTimeout:   cmp.Or(c.DialTimeout, 3*time.Second),
		ResponseHeaderTimeout: cmp.Or(c.HeaderTimeout, 30*time.Second),
		IdleConnTimeout:       cmp.Or(c.IdleTimeout, 90*time.Second),
		MaxIdleConnsPerHost:   256,
		TLSClientConfig:       c.TLS,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		DisableCompression:    true,
	}
	if h2c {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	t.ResponseHeaderTimeout = max(t.ResponseHeaderTimeout, 0)
	return t
}
