package gateways

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// nginxMembers and haproxyMembers are the replacements with which a gateway writes the field X-User of members, from
// the field X-Session that stands for its authentication.
var (
	nginxMembers   = []string{"#   proxy_set_header X-User $remote_user;", "proxy_set_header X-User $http_x_session;"}
	haproxyMembers = []string{"#   http-request del-header X-User",
		"http-request set-header X-User %[req.hdr(X-Session)]"}
	pluginMembers = []string{"access_by_lua_block {",
		"rewrite_by_lua_block { ngx.req.set_header('X-User', ngx.var.http_x_session) } access_by_lua_block {"}
	envoyMembers = []string{`          # - name: envoy.filters.http.header_mutation
          #   typed_config:
          #     "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
          #     mutations: {request_mutations: [{remove: x-user}]}
`, `          - name: envoy.filters.http.header_mutation
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
              mutations: {request_mutations: [{remove: x-user},
                {append: {header: {key: x-user, value: "%REQ(X-Session)%"}}}]}
`}
	traefikMembers = []string{"middlewares: [hotparam]", "middlewares: [strangers, hotparam]",
		`    #   user: {headers: {customRequestHeaders: {X-User: ""}}}`,
		`    strangers: {headers: {customRequestHeaders: {X-User: ""}}}
    members: {headers: {customRequestHeaders: {X-User: alice}}}`, "  routers:\n", "  routers:\n" +
			"    members: {entryPoints: [web], rule: \"Header(`X-Session`, `alice`)\",\n" +
			"              middlewares: [members, hotparam], service: app}\n"}
)

// passing holds the promises of the files of a gateway about visitor passes and members.
type passing struct {
	members []string
	// keeps is true if the application gets the cookies of passes.
	keeps bool
}

var passings = map[string]passing{
	"nginx": {members: nginxMembers}, "nginx that decides itself": {members: nginxMembers},
	"ingress-nginx": {members: nginxMembers, keeps: true}, "Traefik": {members: traefikMembers, keeps: true},
	"Caddy": {members: []string{"#   header_up -X-User",
		"header_up X-User {http.request.header.X-Session}"}},
	"HAProxy with SPOE": {members: haproxyMembers}, "HAProxy that decides itself": {members: haproxyMembers},
	"Envoy, external authorization": {members: envoyMembers, keeps: true},
	"Envoy, external authorization by HTTP": {keeps: true,
		members: append(slices.Clone(envoyMembers), "{exact: accept},", "{exact: accept}, {exact: x-user},")},
	"the plugin for Kong": {members: pluginMembers}, "the plugin for APISIX": {members: pluginMembers},
}

// passOf returns the cookie of a visitor pass that a denial sets, "NAME=VALUE".
func passOf(t *testing.T, refused answer) string {
	t.Helper()
	lines := refused.header["Set-Cookie"]
	if refused.status != 429 || len(lines) != 1 || refused.header.Get("Retry-After") == "" ||
		!strings.Contains(refused.header.Get("Cache-Control"), "no-store") {
		t.Fatalf("a refused reader without a pass: %d %v", refused.status, refused.header)
	}
	pass, attributes, _ := strings.Cut(lines[0], ";")
	if !regexp.MustCompile(`^hotparam_[0-9a-f]{4}=[\w-]+$`).MatchString(pass) || strings.Contains(attributes, "Secure") {
		t.Errorf("the pass of a reader without TLS: %s", lines[0])
	}
	return pass
}

// TestPass_LetsReadersInThroughEachGateway checks that a reader without a pass is refused once, and answered with the
// pass while no other stranger is. The gateway says who is a member, whatever clients say.
func TestPass_LetsReadersInThroughEachGateway(t *testing.T) {
	t.Parallel()
	for name, k := range withPlugins() {
		of, ok := passings[name]
		if !ok {
			continue // Envoy's rate limit service
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, l := startApp(t), startLimiter(t, k.limiter...)
			p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
			letReadersIn(t, of, a, startGateway(t, k.command(t, p, of.members...), "127.0.0.1:"+p.front, blocked, 429))
		})
	}
}

func letReadersIn(t *testing.T, of passing, a *app, g *gateway) {
	const page, reader, crawler, elsewhere = "/pages?id=1", "127.0.0.21", "127.0.0.22", "127.0.1.21"
	ask := func(client string, header ...string) answer {
		t.Helper()
		return g.askFrom(client, "GET", page, header...)
	}
	expect := func(what string, want int, got answer) {
		t.Helper()
		if got.status != want {
			t.Fatalf("%s: %d, want %d", what, got.status, want)
		}
	}
	for range 4 { // the last place has half of the burst
		expect("a stranger", 200, ask(crawler))
	}
	refused := ask(reader, "Accept", "text/html", "X-Forwarded-Proto", "https")
	pass := passOf(t, refused)
	if refused.header.Get("Refresh") != refused.header.Get("Retry-After") &&
		!strings.Contains(refused.body, `http-equiv="refresh"`) {
		t.Errorf("the page does not reload itself: %v\n%s", refused.header, refused.body)
	}
	if posted := g.askFrom(reader, "POST", page, "Accept", "text/html", "Content-Length", "0"); posted.status != 429 ||
		posted.header.Get("Refresh") != "" {
		t.Errorf("a refused POST: %d %v", posted.status, posted.header)
	}
	expect("a stranger that calls itself a member", 429, ask(crawler, "X-User", "mallory"))
	program.Await(t, time.Minute, "the pass to count", func() bool {
		got := ask(reader, "Cookie", "a=1; "+pass+"; b=2")
		if len(got.header["Set-Cookie"]) > 0 {
			t.Fatal("a reader with a pass gets another one")
		}
		return got.status == 200
	})
	seen, _ := a.last()
	if kept := strings.Contains(seen.Header.Get("Cookie"), pass); kept != of.keeps ||
		!kept && seen.Header.Get("Cookie") != "a=1; b=2" {
		t.Errorf("the application gets the cookies %q", seen.Header["Cookie"])
	}
	expect("a stranger after the reader", 429, ask(crawler))
	if other := ask(elsewhere, "Cookie", pass); passOf(t, other)[:13] == pass[:13] {
		t.Error("a client of another network has the pass of the reader")
	}
	expect("the reader again", 200, ask(reader, "Cookie", pass))
	if seen, _ = a.last(); !of.keeps && len(seen.Header["Cookie"]) > 0 {
		t.Errorf("the application gets the cookies %q", seen.Header["Cookie"])
	}
	if got := ask(reader, "Cookie", pass); got.status != 429 || len(got.header["Set-Cookie"]) > 0 {
		t.Errorf("a reader with a pass beyond the place of readers: %d %v", got.status, got.header)
	}
	for range 2 {
		expect("a member", 200, ask(crawler, "X-Session", "alice", "X-User", "mallory"))
	}
	expect("a member beyond the burst", 429, ask(crawler, "X-Session", "alice"))
}

// TestPass_RemovesEveryCookieOfPasses checks which cookies the application gets from gateways that remove passes.
func TestPass_RemovesEveryCookieOfPasses(t *testing.T) {
	t.Parallel()
	for name, k := range withPlugins() {
		if of, ok := passings[name]; !ok || of.keeps {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, l := startApp(t), startLimiter(t, k.limiter...)
			p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
			g := startGateway(t, k.command(t, p), "127.0.0.1:"+p.front, blocked, 429)
			for sent, want := range map[string]string{
				"a=1": "a=1", "a=1; b=\"x y\";c": "a=1; b=\"x y\";c", "xhotparam_12ab=1": "xhotparam_12ab=1",
				"hotparam_12ab=A-_": "", "__Host-hotparam_12ab=A; hotparam_class=member.B": "",
				"hotparam_12ab=A; a=1": "a=1", "a=1; __Host-hotparam_12ab=A": "a=1",
				"hotparam_1=A; hotparam_2=A; a=1; b=2; hotparam_3=A; __Host-hotparam_4=A; c=3": "a=1; b=2; c=3",
			} {
				// Gateways ask about the second target.
				for _, target := range []string{"/topic?id=cold", "/topic?i%64=cold"} {
					got := g.get(target, "Cookie", sent)
					seen, _ := a.last()
					if strings.Join(seen.Header["Cookie"], "|") != want || got.status != 200 {
						t.Errorf("%s: the application gets %q of %q, and the client %d", target, seen.Header["Cookie"], sent,
							got.status)
					}
				}
			}
		})
	}
}

// TestPass_IsNoReasonToMissTheCache checks that nginx answers readers with a pass from its cache of hot keys, asks for
// them what the cache lacks, and neither stores a refusal nor its cookie.
func TestPass_IsNoReasonToMissTheCache(t *testing.T) {
	t.Parallel()
	deciding := kinds["nginx that decides itself"]
	for name, k := range map[string]kind{
		"nginx with its cache": {limiter: kinds["nginx"].limiter, command: nginxCache},
		"nginx that decides itself": {limiter: deciding.limiter,
			command: func(t *testing.T, p places, replace ...string) *exec.Cmd {
				return deciding.command(t, p, append(replace, "404 1s;", "404 1h;")...)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, l := startApp(t), startLimiter(t, k.limiter...)
			c, err := redisclient.Open(redisclient.Config{Addrs: []string{l.redis}, Namespace: "gateways"})
			now := time.Now()
			hot := hottype.HotKey{Key: "pages?id=hot", Rule: "pages", Rate: 1000, Since: now, Until: now.Add(time.Hour)}
			if err := rediscontrol.New(redistest.MustOpen(t, c, err)).Publisher("test").Publish(t.Context(),
				report.HotSet{At: now, Keys: []hottype.HotKey{hot}}); err != nil {
				t.Fatal(err)
			}
			p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
			missNoCache(t, a, startGateway(t, k.command(t, p), "127.0.0.1:"+p.front, blocked, 429))
		})
	}
}

func missNoCache(t *testing.T, a *app, g *gateway) {
	const page, other = "/pages?id=hot", "/pages?id=hot&another=1"
	get := func(target string, header ...string) answer { // not as the load balancer, about which gateways ask
		t.Helper()
		return g.askFrom("127.0.0.21", "GET", target, header...)
	}
	program.Await(t, time.Minute, "an answer of the cache", func() bool {
		return get(page).header.Get("X-Cache") == "HIT"
	})
	for i := 0; ; i++ { // until the last place is used up
		if got := get(page + "&n=" + strconv.Itoa(i)); got.status == 429 {
			break
		} else if i == 8 {
			t.Fatalf("request %d of strangers: %d", i, got.status)
		}
	}
	pass := passOf(t, get(other))
	passOf(t, get(other))
	if got := get(page, "Cookie", pass); got.status != 200 || got.header.Get("X-Cache") != "HIT" {
		t.Errorf("a reader with a pass: %d %v", got.status, got.header)
	}
	program.Await(t, time.Minute, "the pass to count for the cache", func() bool {
		return get(other, "Cookie", pass).status == 200
	})
	if seen, _ := a.last(); len(seen.Header["Cookie"]) > 0 {
		t.Errorf("the application gets the cookies %q", seen.Header["Cookie"])
	}
	if got := get(other); got.status != 200 || got.header.Get("X-Cache") != "HIT" ||
		len(got.header["Set-Cookie"]) > 0 {
		t.Errorf("a stranger after the reader: %d %v", got.status, got.header)
	}
}

// TestPriority_HoldsInGatewaysThatDecide checks that a member is answered after others were refused by the same key, in
// gateways that remember denials, and after a change of the rules to a priority.
func TestPriority_HoldsInGatewaysThatDecide(t *testing.T) {
	t.Parallel()
	members := map[string][]string{"nginx": nginxMembers, "HAProxy": haproxyMembers, "Kong": pluginMembers}
	eachDeciding(t, func(t *testing.T, d deciding) {
		const page, reader, crawler = "/topic?id=viral", "127.0.0.21", "127.0.0.22"
		s := startEdge(t, d, edgeRules, 1, true, members[d.name]...)
		refused := func() {
			t.Helper()
			program.Await(t, time.Minute, "a refusal", func() bool {
				return s.askFrom(crawler, "GET", page).status == 429
			})
		}
		program.Await(t, time.Minute, "a denial that the gateway remembers", func() bool {
			before := s.questions()
			refused()
			return s.questions() == before
		})
		with := strings.Replace(edgeRules, "burst: 20}", "burst: 20, priority: [member]}", 1)
		with = strings.Replace(with, "rate: 0.01, burst: 5}", "rate: 0.01, burst: 60}", 1)
		s.write("hotparam.yaml", with+"classes: [{name: member, match: {header: X-User, pattern: .}}]\n")
		s.limiter.Signal(syscall.SIGHUP)
		program.Await(t, time.Minute, "an answer to a member", func() bool {
			return s.askFrom(reader, "GET", page, "X-Session", "alice").status == 200
		})
		for range 20 {
			refused()
			if got := s.askFrom(reader, "GET", page, "X-Session", "alice"); got.status != 200 {
				t.Errorf("a member after a refusal of others: %d %s", got.status, got.body)
			}
		}
		before := s.questions()
		if s.request("/topic?id=other"); s.questions() != before {
			t.Error("the gateway asks about cold keys")
		}
	})
}
