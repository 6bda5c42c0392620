package rule

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// IP holds the limits of every client.
type IP struct {
	Clients `name:",inline"`
	// Addresses or networks of proxies that may name the client.
	TrustedProxies []string `name:"trusted_proxies"`
	// The header in which proxies name the client: `x-forwarded-for`, `forwarded` (RFC 7239), or a header with one
	// address, such as `x-real-ip`. With `peer` the address of the connection counts. Default: `x-forwarded-for`.
	Client string `name:"client" form:"header"`
	// Bits of an IPv6 address that identify a client, `48` to `64`: the prefix that your visitors' providers assign to
	// one subscriber. Default: `64`.
	IPv6Prefix int `name:"ipv6_prefix" in:"48..64"`
	// Addresses or networks without any limit.
	Exempt []string `name:"exempt"`
}

// Clients holds the limits of each client.
type Clients struct {
	// A window aligned to the clock.
	Fixed *Window `name:"fixed"`
	// A sliding window.
	Sliding *Window `name:"sliding"`
	// Bound of a client's requests in flight: `limit`, `lease`, `scope`, `on_store_failure`, as for `algorithm:
	// in_flight` (docs/limits.md#in-flight).
	InFlight *InFlight `name:"in_flight"`
}

// PerClient holds the windows that each client has for the requests of a rule.
type PerClient struct {
	// A window aligned to the clock.
	Fixed *Window `name:"fixed"`
	// A sliding window.
	Sliding *Window `name:"sliding"`
}

// Window is one per-client window.
type Window struct {
	// Requests of a client that one window allows.
	Limit int64 `name:"limit" in:"1..9007199254740991" required:"true"`
	// The length of the window.
	Window time.Duration `name:"window" in:"1ms..24h" step:"1ms" required:"true"`
	// The field that names whom the window counts, `header.NAME`, instead of the address: an account, a fingerprint of a
	// TLS client, an AS number. It counts if a trusted peer sends it, in one line; docs/rules.md#client_key. Default:
	// the address.
	ClientKey string `name:"client_key"`
	// As in `limit` of a rule.
	Block time.Duration `name:"block" in:"0s..24h" step:"1ms"`
	// As in `limit` of a rule.
	BlockMax time.Duration `name:"block_max" in:"0s..24h" step:"1ms"`
	// `enforce`, or `shadow`: would-be denials are counted (`hotparam_gate_would_deny_ip_total`), and everything is
	// allowed.
	Mode hottype.Mode `name:"mode" words:"enforce,shadow" default:"enforce"`
	// As in `limit`.
	Scope Scope `name:"scope" words:"instance,cluster" default:"cluster"`
	// As in `limit`.
	OnStoreFailure FailurePolicy `name:"on_store_failure" words:"local,open,closed" default:"local"`
	// `exact`: Redis decides, one round trip per request. `async`: each limiter decides in memory and exchanges sums
	// with Redis ten times a second; no request waits for Redis; docs/limits.md#exact-or-async.
	Consistency Consistency `name:"consistency" words:"exact,async" default:"exact"`
}

// Consistency selects how processes share a per-client window of scope cluster.
type Consistency string

// The consistencies of a window.
const (
	Exact Consistency = "exact" // the shared store decides
	Async Consistency = "async" // each decides by itself, and sums are exchanged
)

// Class is a group of requests, such as crawlers, members or returning visitors.
type Class struct {
	// The name in verdicts and metrics; `[a-z][a-z0-9_-]*`.
	Name string `name:"name" required:"true" form:"plain"`
	// `header`, the name of a header, with `pattern`, a regular expression (RE2) that matches somewhere in its value;
	// or `networks`, which contain the client's address; or all of them.
	Match ClassMatch `name:"match"`
	// Instead of `match`: visitors whose browser got the pass of a denial so long ago, `1s` to `24h`, whole seconds;
	// docs/crawlers.md. Such a class has only a name, comes last, and counts only in `priority`.
	PassAge time.Duration `name:"pass_age" in:"1s..24h" step:"1s"`
	// Instead of `match`: `true`: the upstream grants the class by the response header `X-Hotparam-Class`. Such a class
	// has only a name, and counts only in `priority`.
	Granted bool `name:"granted"`
	// The limits of the clients of the class, `fixed` and `sliding`. Default: the limits of `ip`.
	IP Clients `name:"ip"`
	// The windows of the clients of the class, `fixed`, `sliding` or both, in the place of the `per_client` of every
	// rule that has one. Default: the windows of the rules.
	PerClient *PerClient `name:"per_client"`
	// The upstream to which the reverse proxy sends the class. Default: the default upstream.
	Upstream string `name:"upstream" form:"plain"`
	// Domains; the class has only clients whose address has a DNS name in one of them.
	Verify []string `name:"verify" form:"domain"`
}

// ClassMatch selects the requests of a class.
type ClassMatch struct {
	// The name of a header.
	Header string `name:"header" form:"header"`
	// A regular expression (RE2) that matches somewhere in the value.
	Pattern string `name:"pattern"`
	// Addresses or networks of clients.
	Networks []string `name:"networks"`
}
