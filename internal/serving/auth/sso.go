package auth

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// SSO is single sign-on by a proxy in front, such as oauth2-proxy, which logs people in and names them in header
// fields. The zero value disables it.
type SSO struct {
	// UserHeader names the field with the user, GroupsHeader the field with the user's groups, separated by commas.
	UserHeader, GroupsHeader string
	// Proxies may send these fields. With Unix, so may every connection by a unix socket. Requests of other peers that
	// have one of the fields are rejected.
	Proxies []netip.Prefix
	Unix    bool
	// Roles holds the roles of "user:NAME", "group:NAME" and "*", which is every logged-in user. The greatest counts.
	Roles map[string]Role
}

// SSOSettings holds the settings of single sign-on as texts, which ParseSSO parses.
type SSOSettings struct {
	User, Groups string
	Proxies      []string // networks, addresses, or "unix"
	Roles        map[string]string
}

// maxUser bounds the name of a user, which is kept as the author of changes, in bytes.
const maxUser = 256

// ParseSSO reads the settings whose names begin with setting, such as "admin.sso".
func ParseSSO(setting string, s SSOSettings) (SSO, error) {
	sso := SSO{UserHeader: http.CanonicalHeaderKey(s.User), GroupsHeader: http.CanonicalHeaderKey(s.Groups),
		Roles: map[string]Role{}}
	fail := func(name, format string, args ...any) (SSO, error) {
		return SSO{}, fmt.Errorf("auth: --%s_%s: %s", setting, name, fmt.Sprintf(format, args...))
	}
	if s.User == "" {
		if s.Groups != "" || len(s.Proxies) > 0 || len(s.Roles) > 0 {
			return fail("user_header",
				"it is empty and others of %s are not; name the field with the user, such as X-Auth-Request-Email",
				setting)
		}
		return SSO{}, nil
	}
	for _, h := range []string{s.User, s.Groups} {
		if h != "" && !httpguts.ValidHeaderFieldName(h) {
			return fail("user_header", "%q is not a name of a header field", h)
		}
	}
	if len(s.Proxies) == 0 || len(s.Roles) == 0 {
		return fail("proxies",
			"set both --%s_proxies, the proxies that may name the user, and --%s_roles, the roles of users", setting,
			setting)
	}
	for _, text := range s.Proxies {
		if text == "unix" {
			sso.Unix = true
			continue
		}
		p, err := parsePrefix(text)
		if err != nil || p.Bits() == 0 {
			return fail("proxies", "%q must be a network or address of proxies, or unix", text)
		}
		sso.Proxies = append(sso.Proxies, p)
	}
	for who, text := range s.Roles {
		role, err := ParseRole(text)
		kind, name, _ := strings.Cut(who, ":")
		if err != nil || who != "*" && (name == "" || kind != "user" && kind != "group") {
			return fail("roles", "%q must be user:NAME, group:NAME or *, with viewer, operator or admin", who)
		}
		if kind == "group" && s.Groups == "" {
			return fail("roles", "%q: no --%s_groups_header names the groups of a user", who, setting)
		}
		sso.Roles[who] = role
	}
	return sso, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// hasUserField reports whether a request has a field with its user or groups.
func (s SSO) hasUserField(h http.Header) bool {
	filled := func(name string) bool {
		return name != "" && slices.ContainsFunc(h[name], func(v string) bool { return v != "" })
	}
	return s.UserHeader != "" && (filled(s.UserHeader) || filled(s.GroupsHeader))
}

// isProxy reports whether a peer is one of the proxies.
func (s SSO) isProxy(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	if err != nil { // unix sockets have no address with a port
		return s.Unix && !strings.Contains(remote, ":")
	}
	from := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(s.Proxies, func(p netip.Prefix) bool { return p.Contains(from) })
}

// callerOf returns the user that the proxy names, or the reason why the request is rejected. A field that is set twice
// is rejected, because one of the two may be the client's own, which the proxy forgot to remove.
func (s SSO) callerOf(r *http.Request) (Caller, string) {
	if !s.isProxy(r.RemoteAddr) {
		return Caller{}, "The field " + s.UserHeader + " is believed only from the proxies of this listener."
	}
	users, groups := r.Header[s.UserHeader], r.Header[s.GroupsHeader]
	if len(users) != 1 || len(groups) > 1 || !isPlainName(users[0]) {
		return Caller{}, "The proxy names no user, or more than one."
	}
	c := Caller{Name: users[0], Role: max(s.Roles["*"], s.Roles["user:"+users[0]])}
	for _, list := range groups {
		for g := range strings.SplitSeq(list, ",") {
			c.Role = max(c.Role, s.Roles["group:"+strings.TrimSpace(g)])
		}
	}
	if c.Role == 0 {
		return Caller{}, "This user has no role here."
	}
	return c, ""
}

func isPlainName(name string) bool {
	return name != "" && len(name) <= maxUser && !strings.ContainsFunc(name,
		func(r rune) bool { return r < ' ' || r == 0x7f })
}
