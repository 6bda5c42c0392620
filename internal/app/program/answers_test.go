package program

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/decisionapi"
	"github.com/hotparam/pipeline/internal/serving/envoy"
	"github.com/hotparam/pipeline/internal/serving/forwardauth"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// The law of docs/security.md: the header of an answer is shorter than maxHead, a body or message than maxBody.
const (
	maxHead = 2 << 10
	maxBody = 4 << 10
)

// answering is a gate whose verdict has the key of the request by real rules.
type answering struct {
	httplimit.Gate
	set  *rules.Set
	v    hottype.Verdict
	seen func(*hottype.Request) // if set, it is called with each request
}

func (g *answering) DecideForGateway(_ context.Context, _ time.Time, r *hottype.Request) hottype.Verdict {
	if g.seen != nil {
		g.seen(r)
	}
	v := g.v
	if matches := g.set.Match(r, new(rules.Scratch)); len(matches) > 0 {
		v.Key = hottype.Key(matches[len(matches)-1].Key)
	}
	return v
}

func (g *answering) DecideKeysForGateway(ctx context.Context, now time.Time, r *hottype.Request) hottype.Verdict {
	return g.DecideForGateway(ctx, now, r)
}

func (g *answering) Begin(ctx context.Context, now time.Time, r *hottype.Request, _ bool) verdict.Verdict {
	return verdict.Verdict{Verdict: g.DecideForGateway(ctx, now, r)}
}

func (g *answering) DecideForCache(ctx context.Context, now time.Time, r *hottype.Request) (
	verdict.Verdict, func(*verdict.Verdict)) {
	return g.Begin(ctx, now, r, true), nil
}

func (*answering) UsesProofs() (cookies, grants bool) { return false, false }

func (g *answering) RecordOutcomes(time.Time, string, time.Duration, int, int64) bool { return false }

func (g *answering) TakeLimit(_ context.Context, _ time.Time, _ *gate.Limit, subject string, _ int64) hottype.Verdict {
	v := g.v
	v.Key = hottype.Key(subject)
	return v
}

// keysOfAnyLength is rules that count all parameters, and paths, up to bounds that are larger than those of listeners.
const keysOfAnyLength = `
query_bounds: {pairs: 4096, name_bytes: 4096, value_bytes: 65536, query_bytes: 1048576}
rules:
  - {name: "*", params: ["*", "header.X-Long"], hot: {rate: 100}, limit: {rate: 10}}
`

// dialects are ways to ask, each of which returns the length of an answer's header and of its body.
func dialects(t *testing.T, g *answering, answers httplimit.Responder) map[string]func(r *asked) (head, body int) {
	t.Helper()
	list := map[string]func(r *asked) (head, body int){}
	overHTTP := func(name string, h http.Handler, request func(r *asked) string) {
		srv := httptest.NewUnstartedServer(h)
		srv.Config.MaxHeaderBytes = 4 << 20
		srv.Start()
		t.Cleanup(srv.Close)
		list[name] = func(r *asked) (int, int) { return sizesOf(t, srv.Listener.Addr().String(), request(r)) }
	}
	for _, d := range forwardauth.Dialects {
		check, err := forwardauth.New(forwardauth.Config{Gate: g, Dialect: d, PathPrefix: "/check?", Answers: answers})
		if err != nil {
			t.Fatal(err)
		}
		overHTTP("check "+string(d), check, func(r *asked) string { return r.check(d) })
	}
	overHTTP("decide", decisionapi.Decide(g), func(r *asked) string {
		body := fmt.Sprintf(`{"uri":%q,"headers":{"X-Long":%q}}`, r.target, r.field)
		return fmt.Sprintf("POST /v1/decide HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	direct := func(r *asked) string {
		return "GET " + r.target + " HTTP/1.1\r\nHost: a\r\nAccept: " + r.accept + "\r\nX-Long: " + r.field + "\r\n\r\n"
	}
	none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	overHTTP("middleware", middleware.New(g, middleware.Options{Answers: answers}).Wrap(none), direct)
	p, err := proxy.New(g, proxy.Config{Upstreams: map[string]*url.URL{"": {Scheme: "http", Host: "127.0.0.1:1"}},
		Answers: answers})
	if err != nil {
		t.Fatal(err)
	}
	overHTTP("proxy", p, direct)
	envoyDialects(t, g, answers, list)
	return list
}

// sizesOf sends a request, and returns the lengths of header and body of the answer.
func sizesOf(t *testing.T, addr, request string) (head, body int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	go func() { _, _ = io.WriteString(conn, strings.Replace(request, "\r\n", "\r\nConnection: close\r\n", 1)) }()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%.300s: %v", request, err)
		}
		if head += len(line); line == "\r\n" {
			break
		}
	}
	n, _ := io.Copy(io.Discard, r)
	return head, int(n)
}

// envoyDialects adds Envoy's two services. The client's part of an answer is its header, and the message is its body.
func envoyDialects(t *testing.T, g *answering, answers httplimit.Responder,
	list map[string]func(r *asked) (head, body int)) {
	s, ln := envoy.New(envoy.Config{Gate: g, Answers: answers}), bufconn.Listen(1<<16)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	conn, err := grpc.NewClient("passthrough:x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); stop(); <-ended })
	list["ext_authz"] = func(r *asked) (head, body int) {
		out, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{
			Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{
				Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: r.target,
					Headers: map[string]string{"x-long": r.field, "accept": r.accept}}}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range slices.Concat(out.GetDeniedResponse().GetHeaders(), out.GetOkResponse().GetHeaders()) {
			head += len(h.GetHeader().GetKey()) + len(h.GetHeader().GetValue()) + len(": \r\n")
		}
		return head, proto.Size(out)
	}
	list["rate limit service"] = func(r *asked) (head, body int) {
		client := ratelimitv3.NewRateLimitServiceClient(conn)
		out, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
			Domain: "hotparam", Descriptors: []*commonv3.RateLimitDescriptor{{
				Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "path", Value: r.target}}}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range out.GetResponseHeadersToAdd() {
			head += len(h.GetKey()) + len(h.GetValue()) + len(": \r\n")
		}
		return head, proto.Size(out)
	}
}

// asked is a request that a gateway asks about.
type asked struct{ target, field, accept string }

// check is the check of a dialect.
func (r *asked) check(d forwardauth.Dialect) string {
	target, fields := "/check", ""
	switch d {
	case forwardauth.Nginx:
		fields = "X-Original-URI: " + r.target + "\r\nX-Original-Method: GET\r\nX-Original-Host: a\r\n" +
			"X-Real-IP: 192.0.2.1\r\n"
	case forwardauth.IngressNginx:
		fields = "X-Original-URL: http://a" + r.target + "\r\nX-Original-Method: GET\r\nX-Real-IP: 192.0.2.1\r\n"
	case forwardauth.Forwarded:
		fields = "X-Forwarded-Uri: " + r.target + "\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Host: a\r\n" +
			"X-Forwarded-For: 192.0.2.1\r\n"
	case forwardauth.Path:
		target = "/check?" + r.target
	}
	return "GET " + target + " HTTP/1.1\r\nHost: a\r\nAccept: " + r.accept + "\r\nX-Long: " + r.field + "\r\n" + fields +
		"\r\n"
}

// drawAsked draws requests up to lengths that no listener takes, of bytes that keys escape and of bytes that they do
// not.
func drawAsked(t *rapid.T) *asked {
	length := rapid.OneOf(rapid.IntRange(0, 700), rapid.IntRange(1000, 60_000))
	text := func(name string) string {
		units := []string{"!", "a", "%ff", "%2F", "~", "%0d%0a", ";", "\"", "Z", "_", "a/"}
		unit := rapid.SampledFrom(units).Draw(t, name)
		return strings.Repeat(unit, length.Draw(t, "length")/len(unit))
	}
	r := &asked{field: strings.Trim(text("field"), ";"), accept: rapid.SampledFrom([]string{"*/*", "text/html",
		"text/plain"}).Draw(t, "accept")}
	r.target = "/" + text("path")
	for i := range rapid.IntRange(0, 6).Draw(t, "pairs") {
		r.target += map[bool]string{true: "?", false: "&"}[i == 0] + text("name") + "=" + text("value")
	}
	return r
}

// drawVerdict draws a verdict of any reason, with rules that are longer than any in use.
func drawVerdict(t *rapid.T) hottype.Verdict {
	v := hottype.Verdict{
		Allowed: rapid.IntRange(0, 9).Draw(t, "allowed") == 0, Hot: true, Mode: hottype.ModeEnforce,
		Reason: hottype.Reason(rapid.IntRange(1, report.NumReasons-1).Draw(t, "reason")),
		Rule:   strings.Repeat("r", rapid.IntRange(0, 3000).Draw(t, "rule")),
		Limit:  rapid.Int64Min(0).Draw(t, "limit"), Remaining: rapid.Int64().Draw(t, "remaining"),
		Window: time.Duration(rapid.Int64Min(0).Draw(t, "window")),
	}
	if rapid.Bool().Draw(t, "pass") {
		v.Pass = &hottype.Pass{Name: "hotparam_0a1b", Value: strings.Repeat("A", 27)}
	}
	if !v.Allowed {
		v.RetryAfter = time.Duration(rapid.Int64Min(-1).Draw(t, "retry"))
	}
	return v
}

// No answer of any dialect grows with the request of a client, because gateways read answers into buffers and allow a
// request whose answer does not fit.
func TestAnswers_DoNotGrowWithRequests(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("rules.yaml", []byte(keysOfAnyLength))
	if err != nil {
		t.Fatal(err)
	}
	g := &answering{set: set}
	list := dialects(t, g, httplimit.Responder{Headers: hottype.HeadersBoth, ExposeHeaders: true})
	longest := 0
	rapid.Check(t, func(t *rapid.T) {
		r := drawAsked(t)
		g.v = drawVerdict(t)
		longest = max(longest, len(g.DecideForGateway(t.Context(), time.Time{}, &hottype.Request{Method: "GET",
			Target: r.target, Header: http.Header{}}).Key))
		for name, ask := range list {
			if head, body := ask(r); head >= maxHead || body >= maxBody {
				t.Errorf("%s: %d bytes of header and %d of body for a target of %d bytes", name, head, body, len(r.target))
			}
		}
	})
	if longest < 20_000 {
		t.Errorf("the longest key of the test has %d bytes", longest)
	}
}
