package config

import "time"

// This file has the sections of listeners. As in sections.go, the doc comment of a field is its text in
// docs/settings.md.

// Port holds the settings of a port on which a program listens, and of its connections.
type Port struct {
	// Certificate (PEM) of the listener; empty: no TLS. Certificate, key and authorities are read again when their
	// files change. Files that cannot be used are logged and change nothing.
	TLSCert string `name:"tls_cert" placeholder:"FILE" help:"Certificate (PEM) of the listener; empty: no TLS."`
	TLSKey  string `name:"tls_key" placeholder:"FILE" help:"Key (PEM) of the listener's certificate."`
	// Authorities (PEM) that sign the certificates of callers. If it is set, every caller must present a certificate.
	TLSClientCA string `name:"tls_client_ca" placeholder:"FILE" help:"Authorities (PEM) of callers' certificates."`
	// Connections of ip.trusted_proxies begin with a header of the PROXY protocol, version 1 or 2, that names the
	// client. Their connections without a header are closed, because a client could write the header. No header is read
	// from other peers.
	ProxyProtocol bool `name:"proxy_protocol" help:"Trusted proxies send a header of the PROXY protocol."`
	// Maximum number of open connections. 0: no bound. At the maximum, a listener that speaks HTTP closes its longest
	// idle connection for a new one; if none is idle, the new one is rejected.
	MaxConnections int `name:"max_connections" default:"10000" help:"Maximum number of open connections; 0: no bound."`
	// Maximum number of open connections of one client: an address or a /64 of IPv6. 0: no bound. It does not apply to
	// ip.trusted_proxies. A further connection replaces the client's longest idle one.
	MaxConnectionsClient int `name:"max_connections_client" default:"1000" help:"Maximum number of open connections of one client."`
}

type Listener struct {
	Port
	HeaderTimeout time.Duration `name:"header_timeout" default:"10s" help:"Longest wait for the header of a request."`
	// Longest wait for the body of a request. Every 500 received bytes extend it by a second, so that long uploads
	// pass. 0: no bound, for streams that a client keeps open without sending.
	BodyTimeout time.Duration `name:"body_timeout" default:"30s" help:"Longest wait for a body that does not progress."`
	IdleTimeout time.Duration `name:"idle_timeout" default:"2m" help:"Longest wait of a connection for a further request."`
}

// HTTPToken holds the token that callers of an HTTP listener show.
type HTTPToken struct {
	// Token of callers, sent as bearer token or as password; at least 16 characters. Required off loopback, unless the
	// listener asks for certificates of callers (tls_client_ca) or is a unix socket (unix:/path).
	Token string `help:"Token of ${of}; required off loopback."`
	// File that holds the token, or two lines while one replaces the other. It is read again when it changes, and on
	// SIGHUP. A file that cannot be used is logged and changes nothing.
	TokenFile string `name:"token_file" placeholder:"FILE" help:"File that holds the token of ${of}."`
}

// Admin is the operators' listener: dashboard, API, metrics, health.
type Admin struct {
	// Address of dashboard, API, metrics and health; empty: no listener.
	Listen    string `group:"operate" default:"${admin_listen}" placeholder:"HOST:PORT" help:"Address of dashboard, API and metrics; empty: no listener."`
	HTTPToken `set:"of=the admin listener"`
	// Tokens by the name of their holder, which is the author of their changes: a role (viewer, operator or admin), the
	// token's hash and, if it expires, the end: operator sha256:HEX until 2027-01-01. Several tokens of one name are
	// separated by commas. hotparam token makes a token. A reload applies changes.
	Tokens map[string]string `placeholder:"NAME=ROLE" help:"Tokens by name: a role, and the hash that hotparam token prints."`
	SSO    SSO               `embed:"" prefix:"sso_"`
	// Show the rates of the 100 hottest keys in /metrics too, with the key as a label. Every key that was ever hot then
	// becomes a time series in Prometheus. If it is off, the rates are summed by rule.
	MetricsKeyLabels bool `name:"metrics_key_labels" help:"Show the hottest keys in /metrics, as labels."`
	Listener
}

// SSO is single sign-on by a proxy in front of the admin listener.
type SSO struct {
	// Header field with the user that a proxy has logged in, such as X-Auth-Request-Email; empty: no single sign-on.
	// The proxy must overwrite the field if a client sends it.
	UserHeader   string `name:"user_header" placeholder:"NAME" help:"Header field with the user that a proxy has logged in."`
	GroupsHeader string `name:"groups_header" placeholder:"NAME" help:"Header field with the user's groups, set by the same proxy."`
	// Addresses and networks of the proxies that may name the user, or unix for peers on a unix socket. A request of
	// another peer with such a field is rejected.
	Proxies []string `placeholder:"NETWORK" help:"Proxies that may name the user; requests from other addresses that name one are rejected."`
	// Roles (viewer, operator or admin) of user:NAME, of group:NAME, and of *, which is every logged-in user. The
	// highest role counts; a user without a role is rejected.
	Roles map[string]string `placeholder:"WHO=ROLE" help:"Roles of user:NAME, of group:NAME and of *."`
}

// Answer holds the settings by which the proxy and gateways report verdicts to clients.
type Answer struct {
	// Header fields that name the limit that applied: ratelimit (RateLimit and RateLimit-Policy), x-ratelimit
	// (X-RateLimit-Limit, -Remaining and -Reset, which is in seconds from now), or both.
	Headers string `enum:"ratelimit,x-ratelimit,both" default:"ratelimit" help:"Header fields that name the limit: ${enum}."`
	// Add the fields of answer.headers and Retry-After to Access-Control-Expose-Headers, so that scripts of other
	// origins can read them. Names that the application lists there stay.
	ExposeHeaders bool `name:"expose_headers" help:"Let scripts of other origins read these fields."`
	// Maximum random time that a denial adds to Retry-After, so that clients denied together do not retry together.
	// Retry-After is never shorter than necessary.
	RetryJitter time.Duration `name:"retry_jitter" default:"0s" help:"Maximum random time that a denial adds to Retry-After."`
	// Additional header fields of every denial, such as Access-Control-Allow-Origin=*, without which a script of
	// another origin cannot read it.
	Refusal map[string]string `placeholder:"NAME=VALUE" help:"Additional header fields of every denial."`
	// Path, such as /hotparam.js, at which the proxy serves a module for web pages whose requests may be limited;
	// empty: off. Requests for it are neither counted nor limited and do not reach the upstream.
	Script string `placeholder:"PATH" help:"Path at which the proxy serves its module for web pages."`
}

type Proxy struct {
	Listen string `group:"requests" placeholder:"HOST:PORT" help:"Address of the reverse proxy."`
	// URL to which allowed requests are sent: http://, https:// (HTTP/2 if the upstream offers it), or h2c:// for
	// HTTP/2 without TLS.
	Upstream string `group:"requests" placeholder:"URL" help:"URL for allowed requests; http, https or h2c."`
	// Upstreams by name, for the field upstream of classes.
	Upstreams map[string]string `placeholder:"NAME=URL" help:"Upstreams of classes, by name."`
	Timeout   time.Duration     `default:"30s" help:"Longest wait for the first byte of a response."`
	// Pass the client's Host on. If it is off, upstreams receive the host of their URL.
	PreserveHost bool `name:"preserve_host" default:"true" negatable:"" help:"Pass the client's Host on to upstreams."`
	// Authorities (PEM) that sign the certificates of https upstreams; default: the system's.
	UpstreamCA   string `name:"upstream_tls_ca" placeholder:"FILE" help:"Authorities (PEM) of upstreams' certificates."`
	UpstreamCert string `name:"upstream_tls_cert" placeholder:"FILE" help:"Client certificate (PEM) for upstreams."`
	UpstreamKey  string `name:"upstream_tls_key" placeholder:"FILE" help:"Key (PEM) of the client certificate for upstreams."`
	UpstreamName string `name:"upstream_tls_name" help:"Name in upstreams' certificates if it is not their host."`
	// Maximum bytes in the response cache for hot keys whose rule has a cache. The least recently used responses are
	// evicted first. More than the memory of the machine or container is an error, more than half of it a warning.
	CacheMemory int64 `name:"cache_memory" default:"67108864" help:"Maximum bytes in the response cache."`
	// Longest request to an upstream whose response the cache stores. A longer one continues for its client.
	CacheTimeout time.Duration `name:"cache_timeout" default:"60s" help:"Longest request whose response the cache stores."`
	Listener
}

type Decide struct {
	// Address of POST /v1/decide; empty: no listener, which is the default of serve.
	Listen    string `group:"requests" default:"${decide_listen}" placeholder:"HOST:PORT" help:"Address of POST /v1/decide; empty: no listener."`
	HTTPToken `set:"of=POST /v1/decide"`
	Listener
}

// StatusCheck is the listener for gateways that ask by HTTP and read the status of the response.
type StatusCheck struct {
	// Address of the endpoint /check for gateways that read the status of its response; empty: no listener. See
	// gateways.md.
	Listen string `group:"requests" placeholder:"HOST:PORT" help:"Address of the endpoint /check for gateways; empty: no listener."`
	// Form in which the gateway describes requests: nginx (X-Original-URI, X-Original-Method, X-Original-Host and
	// X-Real-IP), ingress-nginx (X-Original-URL, X-Original-Method and X-Real-IP), forwarded (X-Forwarded-Uri, -Method,
	// -Host and -For: Traefik, Caddy, APISIX) or path (the check's own method, path and Host: Envoy). Required; a
	// gateway of another dialect needs another sidecar.
	Dialect string `group:"requests" enum:",nginx,ingress-nginx,forwarded,path" default:"" help:"Form of the gateway's checks: nginx, ingress-nginx, forwarded or path."`
	// Prefix of the request's path in the dialect path: the gateway's path_prefix. With "?" at its end the path is part
	// of the check's query, which may hold paths that net/http rejects, such as /50%off.
	PathPrefix string `name:"path_prefix" default:"/check?" help:"Prefix of the path in the dialect path."`
	// Status of a denial, 400 to 499. 0: 429, or 403 with the dialects nginx and ingress-nginx, because nginx accepts
	// 401 and 403 only and turns other statuses into 500.
	DenyStatus int `name:"deny_status" default:"0" help:"Status of denials; 0: 429, or 403 for nginx."`
	// Header with the gateway's own id of each request, such as X-Request-ID; empty: off. A check that is repeated
	// within a second is then charged once. The gateway must overwrite the header if a client sends it.
	RequestID string `name:"request_id" placeholder:"NAME" help:"Header with the gateway's own id of each request."`
	HTTPToken `set:"of=the endpoint /check"`
	Listener
}

type Envoy struct {
	// Address of the gRPC services for Envoy: external authorization and rate limits, version 3; empty: no listener.
	Listen string `group:"requests" placeholder:"HOST:PORT" help:"Address of the gRPC services for Envoy; empty: no listener."`
	// Token that Envoy sends (initial_metadata, authorization: Bearer TOKEN); at least 16 characters. Required off
	// loopback, unless the listener asks for certificates of callers (tls_client_ca) or is a unix socket (unix:/path).
	Token string `help:"Token of the gRPC services; required off loopback."`
	// File that holds the token, or two lines while one replaces the other; read again as check.token_file.
	TokenFile string `name:"token_file" placeholder:"FILE" help:"File that holds the token of the gRPC services."`
	// Status of a denial by external authorization. The rate limit filter of Envoy has a setting of its own for it.
	DenyStatus int `name:"deny_status" default:"429" help:"Status of a denial by external authorization."`
	// Files of limits by descriptor, in the form of envoyproxy/ratelimit, one domain each. They are read again with the
	// configuration. The rules decide on descriptors that are not in the files.
	Limits []string `placeholder:"FILE" help:"Limits by descriptor, in the form of envoyproxy/ratelimit."`
	Port
}

type SPOE struct {
	// Address of the agent for HAProxy's offload engine; empty: no listener. The protocol has no tokens: off loopback
	// the agent requires certificates of callers (tls_client_ca) or a unix socket (unix:/path).
	Listen string `group:"requests" placeholder:"HOST:PORT" help:"Address of the agent for HAProxy; empty: no listener."`
	Port
}

// Edge is the listener for gateways that decide about cold keys themselves.
type Edge struct {
	// Address of GET /v1/edge and POST /v1/edge/counts, for gateways that ask only about hot keys; empty: no listener.
	// See gateways.md.
	Listen    string `group:"requests" placeholder:"HOST:PORT" help:"Address of the feed for gateways that ask only about hot keys; empty: no listener."`
	HTTPToken `set:"of=the feed"`
	Listener
}

// Mirror is the listener for copies of requests.
type Mirror struct {
	Listen string `group:"counts" placeholder:"HOST:PORT" help:"HTTP address that receives mirrored requests."`
	// Header with the original request target, such as X-Original-URI. The gateway must set it in every copy. Default:
	// the mirrored request's own target, because a gateway that copies headers unchanged would let clients choose.
	URIHeader string `name:"uri_header" placeholder:"NAME" help:"Header with the original request target."`
	// Header with the original method, such as X-Original-Method. The gateway must set it in every copy. Default: the
	// mirrored request's own method.
	MethodHeader string `name:"method_header" placeholder:"NAME" help:"Header with the original method."`
	Listener
}
