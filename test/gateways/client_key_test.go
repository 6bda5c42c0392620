package gateways

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// naming holds the replacements in the file of a gateway with which a line of docs/gateways.md writes or removes the
// field that names the client. {line} is that line.
type naming struct {
	page    string   // how its row of the page begins
	replace []string // pairs of a text of the file and its text in the test
	// account is what the line of the page writes, and session what it writes in the test: the value of X-Session,
	// which stands for an authentication.
	account, session string
}

var (
	nginxNaming = naming{page: "nginx", replace: []string{"#   proxy_set_header X-User $remote_user;", "{line}"},
		account: "$remote_user", session: "$http_x_session"}
	haproxyNaming = naming{page: "HAProxy", replace: []string{"#   http-request del-header X-User", "{line}"},
		account: "%[var(txn.account)]", session: "%[req.hdr(X-Session)]"}
	luaNaming = naming{page: "Kong", replace: []string{"access_by_lua_block {",
		"rewrite_by_lua_block { {line} } access_by_lua_block {"}, account: "account", session: "ngx.var.http_x_session"}
	envoyNaming = naming{page: "Envoy", replace: []string{envoyMembers[0], envoyFilter + "{line}\n"},
		account: "%DYNAMIC_METADATA(envoy.filters.http.jwt_authn:claims:sub)%", session: "%REQ(x-session)%"}
)

const envoyFilter = `          - name: envoy.filters.http.header_mutation
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
              `

var namings = map[string]naming{
	"nginx": nginxNaming, "nginx that decides itself": nginxNaming, "ingress-nginx": nginxNaming,
	"Caddy": {page: "Caddy", replace: []string{"#   header_up -X-User", "{line}"},
		account: "{http.auth.user.id}", session: "{http.request.header.X-Session}"},
	"HAProxy with SPOE": haproxyNaming, "HAProxy that decides itself": haproxyNaming,
	"Traefik": {page: "Traefik", replace: []string{"middlewares: [hotparam]", "middlewares: [account, hotparam]",
		`    #   user: {headers: {customRequestHeaders: {X-User: ""}}}`, "    {line}"},
		account: "http://auth", session: "{auth}"},
	"Envoy, external authorization": envoyNaming,
	"Envoy, external authorization by HTTP": {page: "Envoy", account: envoyNaming.account, session: envoyNaming.session,
		replace: append(slices.Clone(envoyNaming.replace), "{exact: accept},", "{exact: accept}, {exact: x-account},")},
	"Envoy, rate limit service": {page: "Envoy", account: envoyNaming.account, session: envoyNaming.session,
		replace: []string{"          http_filters:\n", "          http_filters:\n" + envoyFilter + "{line}\n",
			"#- request_headers: {header_name: x-account", "- request_headers: {header_name: x-account",
			"#                    skip_if_absent", " skip_if_absent"}},
	"the plugin for Kong": luaNaming, "the plugin for APISIX": luaNaming,
}

// lines returns the lines of docs/gateways.md that write and remove the field.
func (n *naming) lines(t *testing.T) (write, remove string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| " + n.page + "[^|]*\\| `(.*)` \\| `(.*X-Account.*|.*x-account.*)` \\|$").
		FindStringSubmatch(string(page))
	if row == nil || !strings.Contains(row[1], n.account) {
		t.Fatalf("docs/gateways.md has no lines for %s: %q", n.page, row)
	}
	return strings.ReplaceAll(row[1], n.account, n.session), row[2]
}

// with returns the replacements with a line.
func (n *naming) with(line string) []string {
	replace := slices.Clone(n.replace)
	for i := 1; i < len(replace); i += 2 {
		replace[i] = strings.ReplaceAll(replace[i], "{line}", line)
	}
	return replace
}

// startAuthentication starts a server that knows a user by X-Session and names it in X-Account.
func startAuthentication(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user := r.Header.Get("X-Session"); user != "" {
			w.Header().Set("X-Account", user)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// forgeries are fields in which a client names an account, in all spellings.
var forgeries = [][]string{{"X-Account", "mallory"}, {"x-account", "oscar"}, {"X-ACCOUNT", "trudy"},
	{"X_Account", "eve"}, {"x_account", "mallet"}, {"X-Account", "craig", "X-Account", "ted"},
	{"X-Account", "anna", "x-account", "anna"}, {"X-Account ", "sybil"}, {"X.Account", "wendy"}}

// TestClientKey_IsTheWordOfTheGateway checks, for each gateway with the lines of docs/gateways.md, that a client gets
// no window of its own by naming an account, however it spells the field, and that an account has one window at all
// addresses if the gateway names it.
func TestClientKey_IsTheWordOfTheGateway(t *testing.T) {
	t.Parallel()
	for name, k := range withPlugins() {
		of, ok := namings[name]
		if !ok {
			t.Errorf("%s: nothing says how it names the client", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "denials.log")
			a, l := startApp(t), startLimiter(t, append(slices.Clone(k.limiter), "--denials.log", log)...)
			start := func(line string) *gateway {
				p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
				return startGateway(t, k.command(t, p, of.with(line)...), "127.0.0.1:"+p.front, blocked, 429)
			}
			write, remove := of.lines(t)
			write = strings.Replace(write, "{auth}", startAuthentication(t), 1)
			login := func(g *gateway, client string, want int, header ...string) {
				t.Helper()
				if got := g.askFrom(client, "GET", "/login", header...); got.status != want && got.status != 400 {
					t.Errorf("%s with %q: %d, want %d", client, header, got.status, want)
				}
			}
			forge := func(g *gateway, client, other string) {
				t.Helper()
				for i := range 3 {
					login(g, client, 200, forgeries[i]...)
				}
				for _, header := range forgeries {
					login(g, client, 429, header...)
				}
				login(g, other, 200, forgeries[0]...)
			}
			forge(start(remove), "127.0.0.31", "127.0.0.32")
			if of.page == "Envoy" { // with the line as it is: nothing has authenticated the client
				forge(start(strings.ReplaceAll(write, of.session, of.account)), "127.0.0.37", "127.0.0.38")
			}
			g := start(write)
			forge(g, "127.0.0.33", "127.0.0.34")
			for i := range 3 {
				login(g, "127.0.0.33", 200, append([]string{"X-Session", "anna"}, forgeries[i]...)...)
			}
			for _, header := range forgeries {
				login(g, "127.0.0.35", 429, append([]string{"X-Session", "anna"}, header...)...)
			}
			login(g, "127.0.0.33", 200, "X-Session", "bert", "X-Account", "anna")
			limitsSignIns(t, g, log)
		})
	}
}

// limitsSignIns checks that ten attempts pass, of one address and for one account, and that the log of denials names
// the windows that denied others.
func limitsSignIns(t *testing.T, g *gateway, log string) {
	t.Helper()
	signIn := func(address int, account string, want int) {
		t.Helper()
		client := fmt.Sprint("127.0.2.", address)
		if got := g.askFrom(client, "GET", "/signin", "X-Session", account); got.status != want {
			t.Errorf("%s from %s: %d, want %d", account, client, got.status, want)
		}
	}
	for i := range 10 {
		signIn(1+i, "anna", 200)
	}
	signIn(11, "anna", 429)
	signIn(11, "bert", 200)
	for i := range 10 {
		signIn(12, fmt.Sprint("carl", i), 200)
	}
	signIn(12, "dora", 429)
	signIn(13, "dora", 200)
	for _, want := range []string{
		`"client":"127.0.2.11","shadow":false,"reason":"client_sliding","rule":"signin","limit":10`,
		`"client":"127.0.2.12","shadow":false,"reason":"client_fixed","rule":"signin","limit":10`,
	} {
		program.Await(t, time.Minute, want, func() bool {
			text, err := os.ReadFile(log)
			return err == nil && strings.Count(string(text), want) == 1
		})
	}
}

// The built-in proxy and the middleware believe the field of a peer in ip.trusted_proxies alone.
func TestClientKey_IsNoWordOfTheProxysClients(t *testing.T) {
	t.Parallel()
	a, l := startApp(t), startLimiter(t, "--decide.listen", "{addr}")
	p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
	g := startGateway(t, proxy(t, p), "127.0.0.1:"+p.front, blocked, 429)
	for i, header := range forgeries {
		want := 200
		if i >= 3 {
			want = 429
		}
		if got := g.askFrom("127.0.0.36", "GET", "/login", header...); got.status != want && got.status != 400 {
			t.Errorf("%q: %d, want %d", header, got.status, want)
		}
	}
	for i := range 4 {
		for _, account := range []string{"paula", "quinn"} {
			if got := g.get("/login", "X-Account", account); (got.status == 200) != (i < 3) {
				t.Errorf("request %d of %s, which a trusted peer names: %d", i, account, got.status)
			}
		}
	}
}
