package httplimit

import (
	"context"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Target returns the request target as received. A request that no server received (in tests, or made by a program) has
// no such target, so Target returns the one of its URL. It also does for CONNECT: "CONNECT h/topic?id=1" reaches
// handlers as /topic?id=1.
func Target(r *http.Request) string {
	if r.URL == nil || r.RequestURI != "" && r.Method != http.MethodConnect {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// DropHopByHop removes the fields of a request that concern its connection alone (RFC 9110 section 7.6.1). Forwarders
// drop them behind the gate, so nothing may decide by them. Connection cannot name the fields in which trusted proxies
// write. An Upgrade stays if it is to WebSocket. With any other protocol, such as h2c, the connection becomes a tunnel
// for requests that the gate does not see.
func (c *Clients) DropHopByHop(h http.Header) {
	upgrade := len(h["Upgrade"]) == 1 && strings.EqualFold(h["Upgrade"][0], "websocket") &&
		httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade")
	trailers := httpguts.HeaderValuesContainsToken(h["Te"], "trailers") // gRPC requires it
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			if !c.isProxyField(name) {
				delete(h, name)
			}
		}
	}
	if len(h["User-Agent"]) > 1 {
		h["User-Agent"] = h["User-Agent"][:1] // net/http sends no more
	}
	for name := range h {
		switch name {
		case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
			"Http2-Settings", "Proxy-Authenticate", "Proxy-Authorization":
			delete(h, name)
		}
	}
	if trailers {
		h["Te"] = []string{"trailers"}
	}
	if upgrade {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
	}
}

// BeforeForwarding brings a request into the form in which a forwarder such as httputil.ReverseProxy or Caddy sends it:
// without hop-by-hop fields, without an invalid host, and with the target of its URL, which may be encoded in another
// way than the received target.
func (c *Clients) BeforeForwarding(r *http.Request) {
	c.DropHopByHop(r.Header)
	r.RequestURI = r.URL.RequestURI()
	if !SendableHost(r.Host) {
		r.Host = ""
	}
}

// SendableHost reports whether net/http sends a host unchanged. It sends an invalid host empty, and a host without its
// IPv6 zone.
func SendableHost(host string) bool {
	return httpguts.ValidHostHeader(host) && (!strings.HasPrefix(host, "[") || !strings.Contains(host, "%"))
}

// isProxyField reports whether trusted proxies name a client or its origin in a field.
func (c *Clients) isProxyField(field string) bool {
	switch field {
	case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip":
		return true
	}
	return field != "" && field == c.Header()
}

// clientContext is the context key of the client's context, in a request that outlives its client.
type clientContext struct{}

// Outlive returns a context for a request that goes on after its client has left, for at most atMost: the upstream
// works on, so the request keeps its slots. Call end when the request has ended.
func Outlive(client context.Context, atMost time.Duration) (ctx context.Context, end func()) {
	ctx = context.WithValue(context.WithoutCancel(client), clientContext{}, client)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(client, func() {
		select {
		case <-time.After(atMost):
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}

// AbandonedFor is how long a request that holds a slot goes on after its client has left, by default.
const AbandonedFor = 30 * time.Second

// OutlivedClient returns the context of the client that a request outlives, or nil if the request ends with its client.
func OutlivedClient(ctx context.Context) context.Context {
	client, _ := ctx.Value(clientContext{}).(context.Context)
	return client
}
