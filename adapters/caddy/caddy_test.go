package caddy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"

	"github.com/hotparam/pipeline/internal/testing/freeport"
)

const rules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000000, window: 2s}, limit: {rate: 100}}
overrides:
  - {key: "topic?id=viral", rate: 0.01, burst: 3}
  - {key: "topic?id=blocked", action: block}
`

// site is an application behind a Caddy of this process.
type site struct {
	t          *testing.T
	url, rules string
	port       string
	app        *httptest.Server
	seen       string // target and Host of the last request that reached the application
}

// serve starts a Caddy with a site of these lines. A process has only one Caddy, so its tests run one after another.
func serve(t *testing.T, lines string) *site {
	t.Helper()
	s := &site{t: t, rules: filepath.Join(t.TempDir(), "rules.yaml")}
	s.app = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.seen = r.Host + r.RequestURI
	}))
	t.Cleanup(s.app.Close)
	s.write(rules)
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.load(lines)
	return s
}

func (s *site) write(rules string) {
	s.t.Helper()
	if err := os.WriteFile(s.rules, []byte(rules), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// load loads a Caddyfile as caddy reload --force does. The site has another port each time, because Caddy closes the
// listener of the old configuration only after Load has returned, and until then the old listener may take a
// connection.
func (s *site) load(lines string) {
	s.t.Helper()
	s.port = strconv.Itoa(freeport.Port(s.t))
	s.url = "http://127.0.0.1:" + s.port
	s.reload(lines, true)
}

func (s *site) reload(lines string, force bool) {
	s.t.Helper()
	text := fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n}\n:%s {\n\tbind 127.0.0.1\n%s\n\treverse_proxy %s\n}\n",
		s.port, strings.ReplaceAll(lines, "RULES", s.rules), s.app.Listener.Addr())
	config, err := adapt(text)
	if err == nil {
		err = caddy.Load(config, force)
	}
	if err != nil {
		s.t.Fatalf("%v\n%s", err, text)
	}
}

func adapt(text string) ([]byte, error) {
	config, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(text), nil)
	return config, err
}

func (s *site) get(target string, header ...string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.url+target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Host = "news.example"
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(body)
}

func (s *site) want(status int, target string, header ...string) {
	s.t.Helper()
	if res, body := s.get(target, header...); res.StatusCode != status {
		s.t.Errorf("%s %q: %d %s, want %d", target, header, res.StatusCode, body, status)
	}
}

func TestHandler_LimitsHotValues(t *testing.T) {
	s := serve(t, "\thotparam {\n\t\trules RULES\n\t}")
	for range 3 {
		s.want(200, "/topic?id=viral")
	}
	res, body := s.get("/topic?id=viral&x=a%2Fb")
	if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" ||
		!strings.Contains(res.Header.Get("Ratelimit"), "r=0") ||
		res.Header.Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(body, `"key":"topic?id=viral"`) {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
	s.want(429, "/topic?id=blocked")
	s.want(200, "/topic?id=cold&x=a%2Fb+c&&y")
	if s.seen != "news.example/topic?id=cold&x=a%2Fb+c&&y" {
		t.Errorf("the application saw %s", s.seen)
	}
}

// The charges of a limit survive a reload of Caddy's configuration, and changed rules apply from then on.
func TestHandler_KeepsChargesOverReloads(t *testing.T) {
	lines := "\thotparam {\n\t\trules RULES\n\t}"
	s := serve(t, lines)
	for range 3 {
		s.want(200, "/topic?id=viral")
	}
	s.load(lines + "\n\theader X-New yes")
	if res, _ := s.get("/topic?id=viral"); res.StatusCode != 429 || res.Header.Get("X-New") != "yes" {
		t.Errorf("after a reload: %d %v", res.StatusCode, res.Header)
	}
	s.load(lines)
	s.write(strings.Replace(rules, "id=blocked", "id=other", 1))
	s.reload(lines, false) // ignored by Caddy, because its own configuration has not changed
	s.want(429, "/topic?id=blocked")
	s.load(lines)
	s.want(200, "/topic?id=blocked")
	s.want(429, "/topic?id=other")
}

// The request counted is the request that the application sees.
func TestHandler_JudgesRewrittenRequests(t *testing.T) {
	s := serve(t, "\thotparam {\n\t\trules RULES\n\t}\n\turi strip_prefix /site")
	s.want(429, "/site/topic?id=blocked")
	s.want(200, "/other")
}

// Caddy encodes the path of its URL again and removes hop-by-hop fields, both before a request is judged.
func TestHandler_JudgesWhatIsSent(t *testing.T) {
	s := serve(t, "\thotparam {\n\t\trules RULES\n\t}")
	s.write(
		"rules:\n  - {name: topic, match: {path: '/articles/{id}/{slug}'}, params: [path.id], hot: {rate: 1000000}}\n" +
			"overrides:\n  - {key: 'topic?path.id=star', action: block}\n",
	)
	s.load("\thotparam {\n\t\trules RULES\n\t}")
	for _, target := range []string{"/articles/star/x", "/%61rticles/star/x^"} {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
		if answer, _ := io.ReadAll(conn); !strings.HasPrefix(string(answer), "HTTP/1.1 429 ") {
			t.Errorf("%s: %s, the application saw %s", target, answer, s.seen)
		}
		conn.Close()
	}
	var upgrade []string
	s.app.Config.Handler = http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { upgrade = r.Header["Upgrade"] },
	)
	s.want(200, "/other", "Connection", "Upgrade", "Upgrade", "h2c")
	if upgrade != nil {
		t.Errorf("the application is asked to upgrade to %s", upgrade)
	}
}

// The client option identifies clients; the address identifies a client for which it is empty.
func TestHandler_IdentifiesClientsByPlaceholders(t *testing.T) {
	s := serve(t, "\thotparam {\n\t\trules RULES\n\t\tclient {http.request.header.X-User}\n\t}")
	s.write(
		"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000000}}]\nip: {fixed: {limit: 1, window: 24h}}\n",
	)
	s.load("\thotparam {\n\t\trules RULES\n\t\tclient {http.request.header.X-User}\n\t}")
	for _, header := range [][]string{nil, {"X-User", "anna"}, {"X-User", "ben"}} {
		s.want(200, "/topic", header...)
		s.want(429, "/topic", header...)
	}
}

// The log has a line for each denial, by the client as the handler judged it, and goes on over a reload that changes
// rules.
func TestHandler_LogsDenials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "denials.log")
	t.Setenv("HOTPARAM_TEST_DENIALS", path)
	lines := "\thotparam {\n\t\trules RULES\n\t\tclient {http.request.header.X-User}\n" +
		"\t\tdenials {env.HOTPARAM_TEST_DENIALS} {\n\t\t\tformat logfmt\n\t\t}\n\t}"
	s := serve(t, lines)
	s.want(429, "/topic?id=blocked&first", "X-User", "anna")
	s.want(200, "/topic?id=cold", "X-User", "anna")
	s.write(strings.Replace(rules, "id=blocked", "id=other", 1))
	s.load(lines)
	s.want(429, "/topic?id=other&second")
	if err := caddy.Stop(); err != nil { // so that all lines are in the file
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, want := range []string{` client=anna shadow=false reason=blocked `, ` client=127.0.0.1 shadow=false reason=blocked `} {
		if len(got) != 2 || !strings.Contains(got[i], want) ||
			!strings.HasSuffix(got[i], []string{`id=blocked&first"`, `id=other&second"`}[i]) {
			t.Errorf("%d lines, want %s:\n%s", len(got), want, text)
		}
	}
}

func TestHandler_RejectsWrongSettings(t *testing.T) {
	s := serve(t, "\thotparam")
	s.write("rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: fast}}]\n")
	for lines, want := range map[string]string{
		"\thotparam now":                                           "wrong argument count",
		"\thotparam {\n\t\tlimit 5\n\t}":                           "must be rules, redis",
		"\thotparam {\n\t\tdenials\n\t}":                           "wrong argument count",
		"\thotparam {\n\t\tdenials - {\n\t\t\tto x\n\t\t}\n\t}":    "must be format or rate",
		"\thotparam {\n\t\tdenials - {\n\t\t\trate\n\t\t}\n\t}":    "wrong argument count",
		"\thotparam {\n\t\tdenials - {\n\t\t\trate 0\n\t\t}\n\t}":  "at least 1, or -1",
		"\thotparam {\n\t\tdenials - {\n\t\t\trate x\n\t\t}\n\t}":  "at least 1, or -1",
		"\thotparam {\n\t\tdenials - {\n\t\t\trate -2\n\t\t}\n\t}": "Config.Denials.Rate -2",
		"\thotparam {\n\t\tdenials /nowhere/denials.log\n\t}":      "/nowhere/denials.log",
		"\thotparam {\n\t\tbudget 20\n\t}":                         "budget",
		"\thotparam {\n\t\trules /nowhere.yaml\n\t}":               "/nowhere.yaml",
		"\thotparam {\n\t\trules " + s.rules + "\n\t}":             "rules.yaml:1: rules[0].hot.rate",
		"\thotparam {\n\t\tredis redis://127.0.0.1:6379\n\t}":      "StatsD",
		"\thotparam {\n\t\tredis http://x:secret@y\n\t}":           "must be redis://",
	} {
		config, err := adapt(fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n}\n:%s {\n%s\n}\n", s.port, lines))
		if err == nil {
			err = caddy.Load(config, true)
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", lines, err, want)
		}
	}
	s.want(200, "/topic") // the former configuration still runs
}

// The Caddyfile directive becomes the same settings in JSON.
func TestUnmarshalCaddyfile_ReadsEachOption(t *testing.T) {
	t.Parallel()
	config, err := adapt(
		":1 {\n\thotparam {\n\t\trules a\n\t\tredis b\n\t\tstatsd c\n\t\tbudget 30ms\n\t\tclient {http.auth.user.id}\n" +
			"\t\tdenials d {\n\t\t\tformat logfmt\n\t\t\trate 7\n\t\t}\n\t}\n}\n",
	)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, config); err != nil {
		t.Fatal(err)
	}
	const want = `{"budget":30000000,"client":"{http.auth.user.id}","denials":{"format":"logfmt","rate":7,"to":"d"},"handler":"hotparam","redis":"b","rules":"a","statsd":"c"}`
	if !strings.Contains(b.String(), want) {
		t.Errorf("%s, want %s in it", b.String(), want)
	}
}

// A request for a blocked value does not reach the application even if it is long, and a request for another value has
// the response that Caddy sends without the module: 431 if it is too long for Caddy.
func TestHandler_JudgesLongRequests(t *testing.T) {
	var heads []string
	for _, n := range []int{1 << 10, 8 << 10, 15 << 10, 32 << 10, 64 << 10} {
		pad := strings.Repeat("p", n)
		heads = append(heads,
			"GET /topic?id=%s HTTP/1.1\r\nHost: a\r\nX-Pad: "+pad, "GET /topic?id=%s HTTP/1.1\r\nHost: "+pad,
			"GET /topic?id=%s&x="+pad+" HTTP/1.1\r\nHost: a", "GET /topic?id=%s HTTP/1.0\r\nX-Pad: "+pad)
	}
	s := serve(t, "")
	var without []int
	for _, head := range heads {
		without = append(without, s.send(fmt.Sprintf(head, "cold")))
	}
	s.load("\thotparam {\n\t\trules RULES\n\t}")
	judged := 0
	for i, head := range heads {
		// Beyond the rules' bounds the verdict is about another key than the blocked key.
		malformed := strings.Contains(head, "&x=") && len(head) > 8<<10
		if got := s.send(fmt.Sprintf(head, "cold")); got != without[i] && !malformed {
			t.Errorf("%.60s, %d bytes: %d, without the module %d", head, len(head), got, without[i])
		}
		s.seen = ""
		got := s.send(fmt.Sprintf(head, "blocked"))
		if got != 429 && got != without[i] || s.seen != "" {
			t.Errorf("%.60s, %d bytes, blocked: %d, and the application saw %q", head, len(head), got, s.seen)
		}
		if got == 429 {
			judged++
		}
	}
	if judged < 12 {
		t.Errorf("only %d of %d requests are short enough for Caddy", judged, len(heads))
	}
}

// send sends the head of a request unchanged and returns the status of the response.
func (s *site) send(head string) int {
	s.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, head+"\r\nConnection: close\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}
