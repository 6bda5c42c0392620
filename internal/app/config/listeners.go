package config

import "time"

// This file has the sections of listeners. As in sections.go, the doc comment of a field is its text in
// docs/settings.md.

// Port holds the settings of a port on which a program listens, and of its connections.
type Port struct {
	// Certificate (PEM) with which the listener speaks TLS. Certificate, key and authorities are read again when their
	// files change; wrong files change nothing and are logged.
	TLSCert string `name:"tls_cert" placeholder:"FILE" help:"Certificate (PEM) of the listener; none: no TLS."`
	TLSKey  string `name:"tls_key" placeholder:"FILE" help:"Key (PEM) of the listener's certificate."`
	// Authorities (PEM) that sign the certificates of callers. With them every caller has to show one.
	TLSClientCA string `name:"tls_client_ca" placeholder:"FILE" help:"Authorities (PEM) of callers' certificates."`
	// Connections of ip.trusted_proxies begin with a header of the PROXY protocol, version 1 or 2, that names the
	// client. One without it is ended, because a client could write it there; others are taken as they are.
	ProxyProtocol bool `name:"proxy_protocol" help:"Trusted proxies send a header of the PROXY protocol."`
	// Most open connections; 0: no bound. When all are taken, a new one takes the place of the longest idle one if the
	// listener speaks HTTP and there is one, and is rejected otherwise.
	MaxConnections int `name:"max_connections" default:"10000" help:"Most open connections; 0: no bound."`
	// Most open connections of one client, an address or a /64 of IPv6; 0: no bound. ip.trusted_proxies have all. Its
	// next connection takes the place of its own longest idle one.
	MaxConnectionsClient int `name:"max_connections_client" default:"1000" help:"Most open connections of one client."`
}

type Listener struct {
	Port
	HeaderTimeout time.Duration `name:"header_timeout" default:"10s" help:"Longest wait for the header of a request."`
	// Longest wait for the body of a request. Every 500 received bytes extend it by a second, so that long uploads
	// pass; 0: no bound, for streams that a client keeps open without sending.
	BodyTimeout time.Duration `name:"body_timeout" default:"30s" help:"Longest wait for a body that does not progress."`
	IdleTimeout time.Duration `name:"idle_timeout" default:"2m" help:"How long connections wait for a next request."`
}

// HTTPToken holds the token that callers of an HTTP listener show.
type HTTPToken struct {
	// Token that callers show, as bearer token or as password; at least 16 characters. Required off loopback, unless
	// the listener asks for certificates of callers (tls_client_ca) or is a unix socket (unix:/path).
	Token string `help:"Token of ${of}; required off loopback."`
	// File that holds the token, or two lines while one replaces the other. It is read again when it changes, and on
	// SIGHUP; a file that cannot be used changes nothing and is logged.
	TokenFile string `name:"token_file" placeholder:"FILE" help:"File that holds the token of ${of}."`
}

// Admin is the operators' listener: dashboard, API, metrics, health.
type Admin struct {
	// Address of dashboard, API, metrics and health; empty for none.
	Listen    string `group:"operate" default:"${admin_listen}" placeholder:"HOST:PORT" help:"Address of dashboard, API and metrics."`
	HTTPToken `set:"of=the admin listener"`
	// Tokens by the name of their holder, which is the author of its changes: a role (viewer, operator or admin), the
	// token's hash and, if it expires, until when: operator sha256:HEX until 2027-01-01. Several tokens of one name are
	// separated by commas. hotparam token makes them. They take effect by a reload.
	Tokens map[string]string `placeholder:"NAME=ROLE" help:"Tokens by name: a role and the hash that hotparam token prints."`
	SSO    SSO               `embed:"" prefix:"sso_"`
	// Show the rates of the 100 hottest keys in /metrics too, with the key as a label. Every key that was ever hot is
	// then a time series in Prometheus; without it the rates are summed by rule.
	MetricsKeyLabels bool `name:"metrics_key_labels" help:"Show the hottest keys in /metrics, as labels."`
	Listener
}

// SSO is single sign-on by a proxy in front of the admin listener.
type SSO struct {
	// Field in which a proxy that logs people in names the user, such as X-Auth-Request-Email; empty for none. The
	// proxy must overwrite what clients send in it.
	UserHeader   string `name:"user_header" placeholder:"NAME" help:"Field in which a proxy names the user that it logged in."`
	GroupsHeader string `name:"groups_header" placeholder:"NAME" help:"Field in which it lists the user's groups."`
	// Addresses and networks of these proxies, or unix for peers on a unix socket. A request from another peer with
	// such a field is rejected.
	Proxies []string `placeholder:"NETWORK" help:"Proxies that may name the user; requests from other addresses that name one are rejected."`
	// Roles (viewer, operator or admin) of user:NAME, of group:NAME, and of *, which is every logged-in user. The
	// greatest role counts; a user without one is rejected.
	Roles map[string]string `placeholder:"WHO=ROLE" help:"Roles of user:NAME, of group:NAME and of *."`
}

// Answer holds the settings by which the proxy and gateways report verdicts to clients.
type Answer struct {
	// Header fields that name the limit that applied: ratelimit (RateLimit and RateLimit-Policy), x-ratelimit
	// (X-RateLimit-Limit, -Remaining and -Reset, which is in seconds from now), or both.
	Headers string `enum:"ratelimit,x-ratelimit,both" default:"ratelimit" help:"Fields that say the limit: ${enum}."`
	// Name these fields and Retry-After in Access-Control-Expose-Headers, so that scripts of other origins can read
	// them. What the application names there stays.
	ExposeHeaders bool `name:"expose_headers" help:"Let scripts of other origins read these fields."`
	// Maximum random time that a denial adds to Retry-After, so that clients denied together do not retry together.
	// Retry-After is never shorter than necessary.
	RetryJitter time.Duration `name:"retry_jitter" default:"0s" help:"Most that a denial asks to wait longer, at random."`
	// Additional header fields of every denial, such as Access-Control-Allow-Origin=*, without which a script of
	// another origin cannot read it.
	Refusal map[string]string `placeholder:"NAME=VALUE" help:"Header fields that every denial has besides."`
	// Path, such as /hotparam.js, at which the proxy serves a module for web pages whose requests may be limited; empty
	// for none. Requests for it are neither counted nor limited and do not reach the upstream.
	Script string `placeholder:"PATH" help:"Path at which the proxy serves its module for web pages."`
}

type Proxy struct {
	Listen string `group:"requests" placeholder:"HOST:PORT" help:"Address of the reverse proxy."`
	// Where allowed requests go: http://, https:// (HTTP/2 where the upstream offers it), or h2c:// for HTTP/2 without
	// TLS.
	Upstream string `group:"requests" placeholder:"URL" help:"Where allowed requests go; http, https or h2c."`
	// Upstreams for classes, by the name that their rule gives.
	Upstreams map[string]string `placeholder:"NAME=URL" help:"Upstreams for classes, by name."`
	Timeout   time.Duration     `default:"30s" help:"Longest wait for the first byte of a response."`
	// Pass on the Host that the client asked for. Without it upstreams see the host of their URL.
	PreserveHost bool `name:"preserve_host" default:"true" negatable:"" help:"Upstreams see the client's Host."`
	// Authorities (PEM) that sign the certificates of https upstreams; default: those that the system trusts.
	UpstreamCA   string `name:"upstream_tls_ca" placeholder:"FILE" help:"Authorities (PEM) of upstreams' certificates."`
	UpstreamCert string `name:"upstream_tls_cert" placeholder:"FILE" help:"Certificate (PEM) to show to upstreams."`
	UpstreamKey  string `name:"upstream_tls_key" placeholder:"FILE" help:"Key (PEM) of the certificate for upstreams."`
	UpstreamName string `name:"upstream_tls_name" help:"Name in upstreams' certificates if it is not their host."`
	// Most bytes of the responses that the response cache holds for hot keys whose rule has a cache. The least recently
	// used ones go first. More than the memory of the machine or container is an error, more than half of it a warning.
	CacheMemory int64 `name:"cache_memory" default:"67108864" help:"Most bytes of answers in the response cache."`
	// Longest request to an upstream whose response the cache stores. A longer one goes on for its client.
	CacheTimeout time.Duration `name:"cache_timeout" default:"60s" help:"Longest request whose response the cache stores."`
	Listener
}

type Decide struct {
	// Address of POST /v1/decide; empty for none, which is the default of serve.
	Listen    string `group:"requests" default:"${decide_listen}" placeholder:"HOST:PORT" help:"Address of POST /v1/decide; empty for none."`
	HTTPToken `set:"of=POST /v1/decide"`
	Listener
}

// StatusCheck is the listener for gateways that ask by HTTP and read the status of the response.
type StatusCheck struct {
	// Address of the endpoint /check for gateways that read the status of its response; empty for none. See
	// gateways.md.
	Listen string `group:"requests" placeholder:"HOST:PORT" help:"Address of the endpoint /check of gateways; empty for none."`
	// How the gateway describes requests: nginx (X-Original-URI, X-Original-Method, X-Original-Host and X-Real-IP),
	// ingress-nginx (X-Original-URL, X-Original-Method and X-Real-IP), forwarded (X-Forwarded-Uri, -Method, -Host and
	// -For: Traefik, Caddy, APISIX) or path (the check's own method, path and Host: Envoy). Required; a gateway of
	// another dialect needs another sidecar.
	Dialect string `group:"requests" enum:",nginx,ingress-nginx,forwarded,path" default:"" help:"How the gateway describes requests: nginx, ingress-nginx, forwarded or path."`
	// Prefix of the request's path in the dialect path, as the gateway's path_prefix. With "?" at its end the path is
	// part of the check's query, which may hold what net/http rejects in a path, such as /50%off.
	PathPrefix string `name:"path_prefix" default:"/check?" help:"What stands before the path in the dialect path."`
	// Status of what is denied, 400 to 499; 0: 429, and 403 with the dialects nginx and ingress-nginx, because nginx
	// knows 401 and 403 only and makes 500 of others.
	DenyStatus int `name:"deny_status" default:"0" help:"Status of denials; 0: 429, and 403 for nginx."`
	// Header in which the gateway gives each request an id of its own, such as X-Request-ID. A check that is repeated
	// within a second is then charged once. The gateway must overwrite what clients send in it. Default: none.
	RequestID string `name:"request_id" placeholder:"NAME" help:"Header with the gateway's own id of each request."`
	HTTPToken `set:"of=the endpoint /check"`
	Listener
}

type Envoy struct {
	// Address of the gRPC services that Envoy asks: external authorization and rate limits, version 3; empty for none.
	Listen string `group:"requests" placeholder:"HOST:PORT" help:"Address of the gRPC services for Envoy; empty for none."`
	// Token that Envoy shows (initial_metadata, authorization: Bearer TOKEN); at least 16 characters. Required off
	// loopback, unless the listener asks for certificates of callers (tls_client_ca) or is a unix socket (unix:/path).
	Token string `help:"Token of the gRPC services; required off loopback."`
	// File that holds the token, or two lines while one replaces the other; read again as check.token_file.
	TokenFile string `name:"token_file" placeholder:"FILE" help:"File that holds the token of the gRPC services."`
	// Status of a denial by external authorization. The rate limit filter of Envoy has a setting of its own for it.
	DenyStatus int `name:"deny_status" default:"429" help:"Status of a denial by external authorization."`
	// Files of limits by descriptor as envoyproxy/ratelimit has them, a domain each. They are read again with the
	// configuration. Descriptors that are not in them are decided by the rules.
	Limits []string `placeholder:"FILE" help:"Limits by descriptor, as envoyproxy/ratelimit has them."`
	Port
}

type SPOE struct {
	// Address of the agent that HAProxy's offload engine asks; empty for none. Its protocol knows no token: off
	// loopback it needs certificates of callers (tls_client_ca), or a unix socket (unix:/path).
	Listen string `group:"requests" placeholder:"HOST:PORT" help:"Address of the agent for HAProxy; empty for none."`
	Port
}

// Edge is the listener for gateways that decide about cold keys themselves.
type Edge struct {
	// Address of GET /v1/edge and POST /v1/edge/counts, for gateways that ask only about what is hot; empty for none.
	// See gateways.md.
	Listen    string `group:"requests" placeholder:"HOST:PORT" help:"Address of the feed for gateways that ask only about hot keys."`
	HTTPToken `set:"of=the feed"`
	Listener
}

// Mirror is the listener for copies of requests.
type Mirror struct {
	Listen string `group:"counts" placeholder:"HOST:PORT" help:"HTTP address to take mirrored requests on."`
	// Header with the original request target, such as X-Original-URI, where the gateway sets it in every copy.
	// Default: the mirrored request's own target, because a gateway that copies headers unchanged would let clients
	// choose.
	URIHeader string `name:"uri_header" placeholder:"NAME" help:"Header with the original request target."`
	// Header with the original method, such as X-Original-Method, where the gateway sets it in every copy. Default: the
	// mirrored request's own method.
	MethodHeader string `name:"method_header" placeholder:"NAME" help:"Header with the original method."`
	Listener
}
