package rule

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// IP are the limits of every client.
type IP struct {
	Clients `name:",inline"`
	// Networks or addresses of proxies that are trusted to name the client.
	TrustedProxies []string `name:"trusted_proxies"`
	// Where they name it: `x-forwarded-for` (the default), `forwarded` (RFC 7239), the name of a header that holds one
	// address, such as `x-real-ip`, or `peer`: nowhere.
	Client string `name:"client" form:"header"`
	// How many bits of an IPv6 address make a client: as many as your visitors' providers give to one. Default: 64.
	IPv6Prefix int `name:"ipv6_prefix" in:"48..64"`
	// Networks or addresses that have no limit.
	Exempt []string `name:"exempt"`
}

// Clients are limits of each client.
type Clients struct {
	// A window aligned to the clock.
	Fixed *Window `name:"fixed"`
	// A window that slides.
	Sliding *Window `name:"sliding"`
	// How many requests of a client may be in flight.
	InFlight *InFlight `name:"in_flight"`
}

// Window is one per-client window.
type Window struct {
	// How many requests of a client one window admits.
	Limit int64 `name:"limit" in:"1..9007199254740991" required:"true"`
	// The length of the window.
	Window time.Duration `name:"window" in:"1ms..24h" step:"1ms" required:"true"`
	// As in `limit` of a rule.
	Block time.Duration `name:"block" in:"0s..24h" step:"1ms"`
	// As in `limit` of a rule.
	BlockMax time.Duration `name:"block_max" in:"0s..24h" step:"1ms"`
	// As in `limit` of a rule.
	Mode hottype.Mode `name:"mode" words:"enforce,shadow" default:"enforce"`
	// As in `limit` of a rule.
	Scope Scope `name:"scope" words:"instance,cluster" default:"cluster"`
	// As in `limit` of a rule.
	OnStoreFailure FailurePolicy `name:"on_store_failure" words:"local,open,closed" default:"local"`
	// `exact`: Redis decides each request. `async`: each limiter decides in memory, and sums are exchanged.
	Consistency Consistency `name:"consistency" words:"exact,async" default:"exact"`
}

// Consistency says how processes share a per-client window of scope cluster.
type Consistency string

// The consistencies of a window.
const (
	Exact Consistency = "exact" // the shared store decides
	Async Consistency = "async" // each decides by itself, and sums are exchanged
)

// Class is a group of requests known by a header, such as crawlers.
type Class struct {
	// Shown in verdicts and metrics.
	Name string `name:"name" required:"true" form:"plain"`
	// Which requests.
	Match ClassMatch `name:"match" required:"true"`
	// The limits of the class's clients; where one is missing, that of every client holds.
	IP Clients `name:"ip"`
	// The reverse proxy sends the class there. Default: the usual upstream.
	Upstream string `name:"upstream" form:"plain"`
	// Domains in one of which the client's address has to have its name. A request that is not verified is not in the
	// class.
	Verify []string `name:"verify" form:"domain"`
}

// ClassMatch is a header and the pattern of its value.
type ClassMatch struct {
	// The name of a header.
	Header string `name:"header" required:"true" form:"header"`
	// A regular expression (RE2) that has to match somewhere in the value.
	Pattern string `name:"pattern" required:"true"`
}
