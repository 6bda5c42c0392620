package httplimit

import (
	"context"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Target is the request target as received. Requests that no server received (in tests, or made by a
// program) have none; their URL is used. It is also used for CONNECT: "CONNECT h/topic?id=1" reaches
// handlers as /topic?id=1.
func Target(r *http.Request) string {
	if r.URL == nil || r.RequestURI != "" && r.Method != http.MethodConnect {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// DropHopByHop removes the fields of a request that concern its connection alone (RFC 9110 section 7.6.1):
// forwarders drop them behind the gate, so nothing may decide by them. Connection cannot name the fields in
// which trusted proxies write. An Upgrade stays if it is to WebSocket: with any other protocol, such as h2c,
// the connection becomes a tunnel for requests that the gate does not see.
func (c *Clients) DropHopByHop(h http.Header) {
	upgrade := len(h["Upgrade"]) == 1 && strings.EqualFold(h["Upgrade"][0], "websocket") &&
		httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade")
	trailers := httpguts.HeaderValuesContainsToken(h["Te"], "trailers") // gRPC requires it
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			if !c.writes(name) {
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

// BeforeForwarding makes a request what a forwarder such as httputil.ReverseProxy or Caddy sends: without
// hop-by-hop fields, without a host that is not valid, and with the target of its URL, which may be encoded
// in another way than the target that was received.
func (c *Clients) BeforeForwarding(r *http.Request) {
	c.DropHopByHop(r.Header)
	r.RequestURI = r.URL.RequestURI()
	if !SendableHost(r.Host) {
		r.Host = ""
	}
}

// SendableHost reports whether net/http sends a host as it is. It sends invalid ones empty, and without an
// IPv6 zone.
func SendableHost(host string) bool {
	return httpguts.ValidHostHeader(host) && (!strings.HasPrefix(host, "[") || !strings.Contains(host, "%"))
}

// writes reports whether trusted proxies name a client or its origin in a field.
func (c *Clients) writes(field string) bool {
	switch field {
	case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip":
		return true
	}
	return field != "" && field == c.Header()
}

// clientContext is where the context of a request that outlives its client has that of the client.
type clientContext struct{}

// Outlive gives the context of a request that goes on after its client has left, for at most a time: the
// upstream works on, so the request keeps its slots. Call end when the request has ended.
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

// OutlivedClient is the context of the client that a request outlives; nil: the request ends with its client.
func OutlivedClient(ctx context.Context) context.Context {
	client, _ := ctx.Value(clientContext{}).(context.Context)
	return client
}
