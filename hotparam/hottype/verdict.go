package hottype

import "time"

// FieldGrant is the field of a response that grants its client a class, or takes the class back if the field is empty,
// where the rules have a class with "granted". Clients never get the field.
const FieldGrant = "X-Hotparam-Class"

// Verdict is the answer to one request.
type Verdict struct {
	// Allowed is true if the request may proceed. In shadow mode it is true even if the limit would deny; see
	// WouldDeny.
	Allowed bool
	// Hot is true if one of the request's keys is hot, regardless of the decision. A gateway with a cache of its own
	// can switch it by Hot.
	Hot    bool
	Reason Reason
	// WouldDeny is true if a rule in shadow mode would have denied.
	WouldDeny bool
	// Unit is the unit of Limit and Remaining. It stands here because a byte is free here, and verdicts are copied for
	// each request.
	Unit LimitUnit
	// WouldDenyReason is the reason of that denial, or 0 if WouldDeny is false.
	WouldDenyReason Reason
	// WouldDenyRule is the Rule of that denial, or "" if WouldDeny is false.
	WouldDenyRule string
	// Rule names the rule that decided, "ip_fixed", "ip_sliding", or an override's ID; if several limits allowed the
	// request, the tightest of them. It is empty if nothing applied.
	Rule string
	// Key is the request's key, or if there are several the key that decided, also for a denial by a limit of the
	// client. It is empty if no rule matched the request, and for an allowed request whose key is not hot.
	Key Key
	// Limit is the capacity of the tightest limit that applied and Window the time in which it returns (token bucket:
	// time to fill from empty). Both are 0 if no limit applied.
	Limit  int64
	Window time.Duration
	// Remaining is the cost that would be allowed right now.
	Remaining int64
	// RetryAfter is the time that a denied request has to wait: 0 if it is allowed, [Never] if waiting does not help.
	RetryAfter time.Duration
	// ResetAfter is the time until the limit is whole again.
	ResetAfter time.Duration
	// Wait is the time by which an allowed request has to be delayed before it proceeds, because its limit delays
	// requests instead of denying them.
	Wait time.Duration
	Mode Mode
	// Class is the class of the request ("crawler"), or "" if it has no class.
	Class string
	// Pass is the visitor pass for a denied client, or nil if the client has a pass or needs no pass. The denial sets
	// its cookie. Pass is a pointer because passes are rare, and verdicts are copied for each request.
	Pass *Pass
}

// Pass is a cookie by which the client of a denied request is known again.
type Pass struct{ Name, Value string }

// String returns the pair NAME=VALUE.
func (p *Pass) String() string {
	if p == nil {
		return ""
	}
	return p.Name + "=" + p.Value
}

// JudgedRequest holds the verdict on a request and its client.
type JudgedRequest struct {
	Verdict Verdict
	// Client is the client by which the request was judged: the name that the service gave it, or the address behind
	// trusted proxies, of IPv6 the /64. It is the zero value if the client is unknown.
	Client Client
}

// Never is the RetryAfter of a request that would be denied after any wait.
const Never time.Duration = -1

// Mode determines whether a limit acts or only watches.
type Mode string

// The modes of a limit.
const (
	ModeEnforce Mode = "enforce"
	ModeShadow  Mode = "shadow"
)

// HeaderStyle selects the header fields that tell a client its limit.
type HeaderStyle string

// The styles of header fields.
const (
	// HeadersRateLimit selects RateLimit and RateLimit-Policy, as in draft-ietf-httpapi-ratelimit-headers. It is the
	// default.
	HeadersRateLimit HeaderStyle = "ratelimit"
	// HeadersXRateLimit selects X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (seconds from now).
	HeadersXRateLimit HeaderStyle = "x-ratelimit"
	// HeadersBoth selects all of these.
	HeadersBoth HeaderStyle = "both"
)

// CachePolicy determines how a response cache answers requests for a key. It is not changed once it is in use.
type CachePolicy struct {
	// How long a response without a lifetime of its own (`s-maxage`, `max-age`, `Expires`) is fresh. `0s`: it is not
	// stored.
	TTL time.Duration `name:"ttl" in:"0s..24h" step:"1ms" default:"1s"`
	// How long a stale response is used while it is fetched again in the background. The response's
	// `stale-while-revalidate` takes precedence.
	Stale time.Duration `name:"stale" in:"0s..24h" step:"1ms" default:"10s"`
	// The same when the upstream fails (500, 502 to 504, no response), or when the key's limit denies the fetch. The
	// response's `stale-if-error` takes precedence.
	StaleIfError time.Duration `name:"stale_if_error" in:"0s..24h" step:"1ms" default:"1m"`
	// Request fields by which responses may differ. A response whose `Vary` names another field is not stored. `*`,
	// `Cookie` and `Authorization` are errors.
	Vary []string `name:"vary" form:"header" default:"Accept-Encoding"`
	// `deny`: requests with cookies go to the upstream. `strip`: they are answered as if they had none, and the
	// upstream does not receive them.
	StripCookies bool `name:"cookies" words:"deny,strip" default:"deny"`
	// The longest stored body, up to 1 GiB.
	MaxBody int64 `name:"max_body" as:"bytes" in:"1..1073741824" default:"1MiB"`
	// How long a request waits for a fetch in progress. After it: a stale response, an upstream request of its own if
	// the response has begun, or a denial.
	Wait time.Duration `name:"wait" in:"0s..1m" step:"1ms" default:"500ms"`
}
