package rules

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/netset"
	"github.com/hotparam/pipeline/internal/parseas"
)

// Set is a parsed configuration of rules. It is immutable.
type Set struct {
	Namespace string
	// Rules are in file order; the first that matches a request counts it. A rule with Continue lets the rules after it
	// count the request too. The catch-all, if there is one, is tried last, at any position in the file.
	Rules   []*Rule
	IP      IPLimits
	Classes []*Class
	// Overrides are the overrides of the file; live overrides have a higher precedence.
	Overrides   []Override
	QueryBounds canon.QueryBounds
	// ParseAs describes how upstreams read targets, for rules without their own parse_as.
	ParseAs parseas.Traits
	// Redact selects the parameters of all rules that are redacted; a rule's own setting comes first.
	Redact []canon.Redaction
	// Warnings are about valid settings with little effect, each with file and line.
	Warnings []string
	// Hash is the same for files that count, judge and limit requests alike, or "" if it is not known.
	Hash string
	// Upstreams are the upstreams that the file names, in its order.
	Upstreams []Upstream

	secret []byte  // key of hashes
	index  matcher // compiled from Rules
}

// FailsClosed reports whether some requests are denied while the shared store does not answer.
func (s *Set) FailsClosed() bool {
	windows := []*ClientWindow{s.IP.Fixed, s.IP.Sliding}
	places := []*InFlight{s.IP.InFlight}
	for _, c := range s.Classes {
		windows, places = append(windows, c.Fixed, c.Sliding), append(places, c.InFlight)
		windows = append(windows, c.PerClient.windows()...)
	}
	for _, r := range s.Rules {
		if r.Limit.OnStoreFailure == FailClosed {
			return true
		}
		windows, places = append(windows, r.PerClient.windows()...), append(places, r.Limit.InFlight)
	}
	failsClosed := func(w *ClientWindow) bool { return w != nil && w.OnStoreFailure == FailClosed }
	return slices.ContainsFunc(windows, failsClosed) ||
		slices.ContainsFunc(places, func(p *InFlight) bool { return p != nil && p.OnStoreFailure == FailClosed })
}

// Rule defines which requests are counted by which parameters, when a key is hot, and which limit then applies to it.
type Rule struct {
	// Index is the position in Set.Rules.
	Index int
	// Name is the resource, or "*" for the catch-all, whose resource is the request path byte for byte.
	Name     string
	Match    Pattern
	Params   []Param
	AllQuery bool     // params contains "*"
	Ignore   []string // globs over names, only with AllQuery
	// ParseAs describes how the upstream behind the rule reads a target.
	ParseAs  parseas.Traits
	Continue bool
	// Cost selects the number for which a request counts in Hot, or is "" if each counts for one.
	Cost     hottype.Cost
	ShowCost bool // clients get the field of the response that has the cost
	Hot      HotCriteria
	Limit    Limit
	// PerClient holds the windows of each client for the requests of the rule, hot or not, or is nil if there are none.
	PerClient *PerClient
	// Cache is the policy by which responses to requests for hot keys are cached, or nil if they are not cached.
	Cache *hottype.CachePolicy
	// Malformed is the policy for requests that are malformed for the rule.
	Malformed MalformedPolicy
	// Values are limits for particular keys of this rule.
	Values []ValueLimit

	redact   []canon.Redaction     // of the parameters that "*" matches
	selector canon.Selector        // compiled from Params and Ignore
	written  redactedForm          // form in which RedactTarget writes the targets that it matches
	values   map[hottype.Key]Limit // Values by key
}

// IsCatchAll reports whether the rule counts the requests that no other rule matches.
func (r *Rule) IsCatchAll() bool { return r.Name == "*" }

// ReadsQuery reports whether keys of the rule have parameters of the query, or may have some.
func (r *Rule) ReadsQuery() bool {
	return r.AllQuery || slices.ContainsFunc(r.Params, func(q Param) bool {
		_, where := q.splitName()
		return where == ""
	})
}

// MalformedPolicy, Scope, FailurePolicy, Consistency and InFlight are types of package rule.
type (
	MalformedPolicy = rule.MalformedPolicy
	Scope           = rule.Scope
	FailurePolicy   = rule.FailurePolicy
	Consistency     = rule.Consistency
	InFlight        = rule.InFlight
)

// The words of these types.
const (
	MalformedLimit = rule.MalformedLimit
	MalformedDeny  = rule.MalformedDeny
	MalformedAllow = rule.MalformedAllow
	ScopeInstance  = rule.ScopeInstance
	ScopeCluster   = rule.ScopeCluster
	FailLocal      = rule.FailLocal
	FailOpen       = rule.FailOpen
	FailClosed     = rule.FailClosed
	Exact          = rule.Exact
	Async          = rule.Async
)

// Pattern selects requests. Empty fields match everything.
type Pattern rule.Match

// Param is one tracked parameter, named as in keys: a query name, "path.x" for a wildcard of the path pattern, or
// "header.X-Name".
type Param struct {
	Name   string
	Normal canon.Normalization
}

// splitName returns the name of a parameter in its source, and the source: "path", "header", or "" for the query.
func (p Param) splitName() (name, where string) {
	where, name, ok := strings.Cut(p.Name, ".")
	if ok && (where == "path" || where == "header") {
		return name, where
	}
	return p.Name, ""
}

// HotCriteria are the criteria by which a key is hot: it reaches any of Rate, Share and Surge. Without any of them, as
// in a rule that only has PerClient, no key is hot.
type HotCriteria rule.Hot

type Limit struct {
	// Spec is the limit. Its Limit is 0 and Set is false if the rule only detects.
	Spec           limit.Spec
	Set            bool
	Mode           hottype.Mode
	Scope          Scope
	OnStoreFailure FailurePolicy
	// Fair divides the limit of a key among clients: by address, or by ClientHeader if a request has that header.
	Fair         bool
	ClientHeader string
	// Priority holds the classes of places 0, 1, …; all other requests have the place after them. It is nil if all
	// requests have the same place.
	Priority []string
	// RefundStatus are the statuses of responses that refund the charge of their request, or nil if no status does.
	RefundStatus *hottype.Statuses
	// InFlight bounds the number of requests for a key that are in flight, or is nil if it is unbounded. A limit has
	// either InFlight or a Spec, and by a cost both: then a Limit of 0 in InFlight stands for as many requests as the
	// burst holds at the mean cost of the key.
	InFlight *InFlight
	// Adaptive makes the rate follow the upstream's capacity, or is nil if the rate is fixed. Spec applies while the
	// capacity is not known.
	Adaptive *Adaptive
}

// ValueLimit is a limit of the rule for one of its keys.
type ValueLimit struct {
	Key   hottype.Key
	Limit Limit
}

// IPLimits are the windows of every client.
type IPLimits struct {
	Fixed, Sliding *ClientWindow // nil if there is no such window
	TrustedProxies []netip.Prefix
	// Client is the place in which trusted proxies name the client: "peer", "forwarded", "x-forwarded-for" (the
	// default), or a header that contains one address.
	Client string
	// IPv6Prefix is the number of bits of an IPv6 address that identify a client: 48 to 64; 0 means 64.
	IPv6Prefix int
	Exempt     []netip.Prefix
	InFlight   *InFlight // nil for any number
}

// LimitsClients reports whether the rules limit all clients, or the clients of some class, for any requests.
func (s *Set) LimitsClients() bool {
	limits := func(fixed, sliding *ClientWindow, f *InFlight) bool {
		return fixed != nil || sliding != nil || f != nil
	}
	return limits(s.IP.Fixed, s.IP.Sliding, s.IP.InFlight) ||
		slices.ContainsFunc(s.Classes, func(c *Class) bool { return limits(c.Fixed, c.Sliding, c.InFlight) })
}

// ClientOf returns the client as which a request's client counts: for IPv6 the network of IPv6Prefix bits. All code
// that counts or limits clients uses it, so that all agree.
func (ip *IPLimits) ClientOf(c hottype.Client) hottype.Client {
	if ip.IPv6Prefix == 0 || ip.IPv6Prefix == 64 || !c.Addr.Is6() {
		return c
	}
	if p, err := c.Addr.Prefix(ip.IPv6Prefix); err == nil {
		c.Addr = p.Addr()
	}
	return c
}

// ClientWindow is a window of each client, over all its requests or over the requests of a rule.
type ClientWindow struct {
	Spec           limit.Spec
	Scope          Scope
	OnStoreFailure FailurePolicy
	// Field names whom the window counts, or is nil if the address of the client does.
	Field *ClientField
	// Consistency is how processes share the window; "" is exact.
	Consistency Consistency
	// Mode is the mode of the window, which denies requests or only counts the requests that it would have denied.
	Mode hottype.Mode
}

// Class is a group of requests, such as crawlers.
type Class struct {
	Name string
	// Pattern matches a line of Header, and Networks contains the client. Either may be nil; both are nil if clients
	// prove the class by a pass or a grant.
	Header   string
	Pattern  *regexp.Regexp
	Networks netset.Set
	// PassAge is the age from which a visitor pass counts, or 0 if the class is not of visitors.
	PassAge time.Duration
	// Granted is true if the upstream grants the class.
	Granted  bool
	Fixed    *ClientWindow // nil for the default windows
	Sliding  *ClientWindow
	Upstream string // name of an upstream, or "" for the default upstream
	// Verify are the domains, separated by spaces, one of which must contain the name of a client's address, or "" if
	// clients are not verified. A request whose client is not verified is not in the class.
	Verify   string
	InFlight *InFlight // nil for the default
	// PerClient takes the place of the PerClient of every rule that has one, or is nil for the windows of the rules.
	PerClient *PerClient
}

// PerClient holds the windows of each client for the requests of a rule. At least one of them is set.
type PerClient struct {
	Fixed, Sliding *ClientWindow // nil if there is no such window
}

// windows returns the windows that are set; p may be nil.
func (p *PerClient) windows() (list []*ClientWindow) {
	if p == nil {
		return nil
	}
	for _, w := range []*ClientWindow{p.Fixed, p.Sliding} {
		if w != nil {
			list = append(list, w)
		}
	}
	return list
}

// IsShared reports whether all processes share some of the windows.
func (p *PerClient) IsShared() bool {
	return slices.ContainsFunc(p.windows(), func(w *ClientWindow) bool { return w.Scope != ScopeInstance })
}

// WindowsFor returns the windows that a client of class c has for the requests of the rule, or nil if the rule has no
// windows. c is nil for a client without a class.
func (r *Rule) WindowsFor(c *Class) *PerClient {
	if r.PerClient != nil && c != nil && c.PerClient != nil {
		return c.PerClient
	}
	return r.PerClient
}

// LimitsClientsByRule reports whether some rule has PerClient.
func (s *Set) LimitsClientsByRule() bool {
	return slices.ContainsFunc(s.Rules, func(r *Rule) bool { return r.PerClient != nil })
}
