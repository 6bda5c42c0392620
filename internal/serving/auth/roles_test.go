package auth

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// held are tokens by the name of their holder, and the lines of the file.
func held(t *testing.T, lines map[string]string) []Token {
	t.Helper()
	tokens, err := ParseTokens("admin.tokens", lines)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestGuard_KnowsNamesRolesAndExpiry(t *testing.T) {
	t.Parallel()
	viewer, old, ann := NewToken(), NewToken(), NewToken()
	g := NewGuardOf("admin", Credentials{Token: token, Tokens: held(t, map[string]string{
		"grafana": FormatToken(Viewer, viewer, time.Time{}),
		"ann":     FormatToken(Operator, old, at) + ", " + FormatToken(Admin, ann, at.Add(time.Hour)),
	})}, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		shown  string
		after  time.Duration
		status int
		caller Caller
	}{
		{viewer, 0, 0, Caller{Name: "grafana", Role: Viewer}},
		{old, -time.Nanosecond, 0, Caller{Name: "ann", Role: Operator, Until: at}},
		{old, 0, 401, Caller{}},
		{ann, 0, 0, Caller{Name: "ann", Role: Admin, Until: at.Add(time.Hour)}},
		{ann, time.Hour, 401, Caller{}},
		{token, 0, 0, Caller{Role: Admin}},
		{NewToken(), 0, 401, Caller{}},
		// A hash from a stolen file does not work as a token.
		{strings.Fields(FormatToken(Viewer, viewer, time.Time{}))[1], 0, 401, Caller{}},
	} {
		if v := ask(g, "192.0.2.1:1", "Bearer "+c.shown, at.Add(c.after)); v.Status != c.status ||
			v.Caller != c.caller {
			t.Errorf("%+v: got %+v", c, v)
		}
	}
}

// Reading the file again with other tokens revokes the missing ones.
func TestGuard_ReplaceRevokesMissingTokens(t *testing.T) {
	t.Parallel()
	before, after := NewToken(), NewToken()
	first := held(t, map[string]string{"ann": FormatToken(Viewer, before, time.Time{})})
	second := held(t, map[string]string{"ann": FormatToken(Viewer, after, time.Time{})})
	g := NewGuardOf("admin", Credentials{Tokens: first}, slog.New(slog.DiscardHandler))
	if g.Replace(first) {
		t.Error("the same tokens are told as others")
	}
	if !g.Replace(second) || ask(g, "192.0.2.1:1", "Bearer "+before, at).Status != 401 ||
		ask(g, "192.0.2.1:1", "Bearer "+after, at).Status != 0 {
		t.Error("the old token holds, or the new one does not")
	}
	// No reload opens a listener to all callers.
	if err := g.CheckTokens(nil); err == nil || g.Replace(nil) || ask(g, "192.0.2.1:1", "", at).Status != 401 {
		t.Errorf("the last token was taken away: %v", err)
	}
	open := NewGuardOf("admin", Credentials{}, slog.New(slog.DiscardHandler))
	if !open.AllowsAll() || open.CheckTokens(nil) != nil || !open.Replace(first) ||
		ask(open, "192.0.2.1:1", "", at).Status != 401 {
		t.Error("a reload cannot close an open listener")
	}
}

func TestParseTokens_RejectsWrongLines(t *testing.T) {
	t.Parallel()
	good := FormatToken(Viewer, token, time.Time{})
	for _, c := range []struct{ name, line, err string }{
		{"ann", token, "ann: it is not of 2 or 4 words"},
		{"ann", "viewer " + token, "ann: the hash is not sha256:"},
		{"ann", token + " " + good[7:], "ann: the role must be"},
		{"ann", "viewer sha256:" + strings.Repeat("0", 62), "ann: the hash is not"},
		{"ann", good + " till 2027-01-01", "it is not of 2 or 4 words"},
		{"ann", good + " until tomorrow", "its end is neither"},
		{"ann", good + "," + good, "ann has the same token as ann"},
		{"", good, "a name is longer"},
		{"ann\nbob", good, "a name is longer"},
		{strings.Repeat("a", 65), good, "a name is longer"},
	} {
		_, err := ParseTokens("admin.tokens", map[string]string{c.name: c.line})
		if err == nil || !strings.Contains(err.Error(), "--admin.tokens: ") || !strings.Contains(err.Error(), c.err) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %q: %v", c.name, c.line, err)
		}
	}
	if tokens := held(t, map[string]string{"ann": good + " until 2027-01-01"}); tokens[0].Until != time.Date(2027, 1, 1,
		0, 0, 0, 0, time.UTC) {
		t.Errorf("%+v", tokens)
	}
}

func TestSSO_TrustsUsersOfItsProxies(t *testing.T) {
	t.Parallel()
	sso, err := ParseSSO("admin.sso", SSOSettings{User: "x-auth-request-email", Groups: "X-Auth-Request-Groups",
		Proxies: []string{"10.0.0.0/24", "fd00::1", "unix"},
		Roles:   map[string]string{"*": "viewer", "user:ann@example.com": "admin", "group:oncall": "operator"}})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuardOf("admin", Credentials{Token: token, SSO: sso}, slog.New(slog.DiscardHandler))
	const user, groups = "X-Auth-Request-Email", "X-Auth-Request-Groups"
	for name, c := range map[string]struct {
		from   string
		header http.Header
		status int
		role   Role
	}{
		"anybody": {"10.0.0.7:1", http.Header{user: {"bob@example.com"}}, 0, Viewer},
		"by name": {"10.0.0.7:1", http.Header{user: {"ann@example.com"}}, 0, Admin},
		"by group": {"[fd00::1]:9", http.Header{user: {"bob@example.com"}, groups: {"dev, oncall"}},
			0, Operator},
		"mapped":              {"[::ffff:10.0.0.7]:9", http.Header{user: {"bob@example.com"}}, 0, Viewer},
		"unix socket":         {"@", http.Header{user: {"bob@example.com"}}, 0, Viewer},
		"called like a group": {"10.0.0.7:1", http.Header{user: {"oncall"}}, 0, Viewer},
		"a group called like a user": {"10.0.0.7:1", http.Header{user: {"bob"}, groups: {"ann@example.com"}}, 0,
			Viewer},
		"not the proxy": {"10.0.1.7:1", http.Header{user: {"ann@example.com"}}, 403, 0},
		"not the proxy, with a token": {"10.0.1.7:1",
			http.Header{user: {"ann@example.com"}, "Authorization": {"Bearer " + token}}, 403, 0},
		"groups alone, not the proxy": {"10.0.1.7:1", http.Header{groups: {"oncall"}}, 403, 0},
		"groups alone":                {"10.0.0.7:1", http.Header{groups: {"oncall"}}, 403, 0},
		"twice": {"10.0.0.7:1", http.Header{user: {"ann@example.com", "bob@example.com"}}, 403,
			0},
		"groups twice":        {"10.0.0.7:1", http.Header{user: {"bob"}, groups: {"dev", "oncall"}}, 403, 0},
		"a control character": {"10.0.0.7:1", http.Header{user: {"ann\x00"}}, 403, 0},
		"empty, with a token": {"10.0.0.7:1", http.Header{user: {""}, "Authorization": {"Bearer " + token}}, 0,
			Admin},
		"nothing": {"10.0.0.7:1", http.Header{}, 401, 0},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/hot", nil)
		r.RemoteAddr, r.Header = c.from, c.header
		if v := g.Check(r, at); v.Status != c.status || v.Caller.Role != c.role {
			t.Errorf("%s: %+v", name, v)
		}
	}
	none, err := ParseSSO("admin.sso", SSOSettings{User: "X-User", Proxies: []string{"10.0.0.1"},
		Roles: map[string]string{"user:ann": "viewer"}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/hot", nil)
	r.RemoteAddr, r.Header = "10.0.0.1:1", http.Header{"X-User": {"bob"}}
	if v := NewGuardOf("admin", Credentials{SSO: none}, slog.New(slog.DiscardHandler)).Check(r, at); v.Status != 403 {
		t.Errorf("a user without a role: %+v", v)
	}
}

func TestParseSSO_RejectsWrongSettings(t *testing.T) {
	t.Parallel()
	some := map[string]string{"*": "viewer"}
	for _, c := range []struct {
		s   SSOSettings
		err string
	}{
		{SSOSettings{Groups: "X-Groups"}, "--admin.sso_user_header: it is empty"},
		{SSOSettings{User: "X User", Proxies: []string{"10.0.0.1"}, Roles: some}, "is not a name of a header field"},
		{SSOSettings{User: "X-User", Roles: some}, "set both"},
		{SSOSettings{User: "X-User", Proxies: []string{"10.0.0.1"}}, "set both"},
		{SSOSettings{User: "X-User", Proxies: []string{"proxy.example"}, Roles: some}, `"proxy.example" must be a network`},
		{SSOSettings{User: "X-User", Proxies: []string{"0.0.0.0/0"}, Roles: some}, `"0.0.0.0/0" must be a network`},
		{SSOSettings{User: "X-User", Proxies: []string{"10.0.0.1"}, Roles: map[string]string{"ann": "admin"}},
			`"ann" must be user:NAME`},
		{SSOSettings{User: "X-User", Proxies: []string{"10.0.0.1"}, Roles: map[string]string{"user:ann": "root"}},
			`"user:ann" must be`},
		{SSOSettings{User: "X-User", Proxies: []string{"10.0.0.1"}, Roles: map[string]string{"group:a": "admin"}},
			"no --admin.sso_groups_header"},
	} {
		if _, err := ParseSSO("admin.sso", c.s); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
}
