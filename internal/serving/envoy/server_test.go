package envoy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// gateFunc is a Gate that calls a function for each request.
type gateFunc func(r *hottype.Request) hottype.Verdict

func (f gateFunc) DecideForGateway(_ context.Context, _ time.Time, r *hottype.Request) hottype.Verdict {
	return f(r)
}

func (f gateFunc) DecideKeysForGateway(_ context.Context, _ time.Time, r *hottype.Request) hottype.Verdict {
	return f(r)
}

func (f gateFunc) TakeLimit(context.Context, time.Time, *gate.Limit, string, int64) hottype.Verdict {
	panic("no limits")
}

// denyHot denies what asks for the value "hot".
func denyHot(r *hottype.Request) hottype.Verdict {
	v := hottype.Verdict{
		Allowed: true, Reason: hottype.ReasonHot, Rule: "topic", Key: "/topic?id=hot", Mode: hottype.ModeEnforce,
		Limit: 200, Remaining: 7, Window: 2 * time.Second, ResetAfter: 1200 * time.Millisecond,
		Pass: &hottype.Pass{Name: "hotparam_0a1b", Value: "pass"},
	}
	if strings.Contains(r.Target, "id=hot") {
		v.Allowed, v.Remaining, v.RetryAfter = false, 0, 1500*time.Millisecond
	}
	return v
}

// serve starts a server and returns a connection to it.
func serve(t *testing.T, cfg Config) (*Server, *grpc.ClientConn) {
	t.Helper()
	s := New(cfg)
	ln := bufconn.Listen(1 << 16)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	conn, err := grpc.NewClient("passthrough:x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, conn
}

// raw sends bytes unchanged, so that a message may violate every schema.
type raw struct{ codec }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("want bytes, not %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// call sends bytes as they are and reads the answer.
func call[R any](t *testing.T, conn *grpc.ClientConn, method string, in []byte, out *R) error {
	t.Helper()
	return conn.Invoke(t.Context(), method, in, out, grpc.ForceCodecV2(raw{newCodec()}))
}

const (
	check  = "/" + serviceAuth + "/Check"
	limits = "/" + serviceRateLimit + "/ShouldRateLimit"
)

// ask returns a rate limit request with one descriptor for each list of keys and values, whose texts are unchanged.
func ask(domain string, descriptors ...[]string) []byte {
	var b []byte
	if domain != "" {
		b = protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), domain)
	}
	for _, pairs := range descriptors {
		var d []byte
		for i := 0; i < len(pairs); i += 2 {
			e := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), pairs[i])
			e = protowire.AppendString(protowire.AppendTag(e, 2, protowire.BytesType), pairs[i+1])
			d = protowire.AppendBytes(protowire.AppendTag(d, 1, protowire.BytesType), e)
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), d)
	}
	return b
}

func TestShouldRateLimit_AnswersEachDescriptor(t *testing.T) {
	t.Parallel()
	_, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	var out ratelimitv3.RateLimitResponse
	if err := call(t, conn, limits, ask("shop", []string{"id", "cold"}, []string{"id", "hot"}, []string{"id", "next"}),
		&out); err != nil {
		t.Fatal(err)
	}
	const ok, over = ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	var got []ratelimitv3.RateLimitResponse_Code
	for _, st := range out.Statuses {
		got = append(got, st.Code)
	}
	if out.OverallCode != over || !slices.Equal(got, []ratelimitv3.RateLimitResponse_Code{ok, over, ok}) {
		t.Fatalf("%v %v", out.OverallCode, got)
	}
	denied := out.Statuses[1]
	if denied.CurrentLimit.RequestsPerUnit != 100 ||
		denied.CurrentLimit.Unit != ratelimitv3.RateLimitResponse_RateLimit_SECOND ||
		denied.LimitRemaining != 0 || denied.DurationUntilReset.AsDuration() != 2*time.Second ||
		denied.CurrentLimit.Name != "topic" {
		t.Errorf("%v", denied)
	}
	if out.Statuses[2].CurrentLimit != nil {
		t.Error("what follows a denial was charged")
	}
	header := map[string]string{}
	for _, h := range out.ResponseHeadersToAdd {
		header[h.Key] = h.Value
	}
	if header["retry-after"] != "2" || header["ratelimit"] != `"topic";r=0;t=2` || header["set-cookie"] != "" ||
		header["content-type"] != "application/problem+json" ||
		!strings.Contains(string(out.RawBody), `"key":"/topic?id=hot"`) {
		t.Errorf("%v %s", header, out.RawBody)
	}
	if out.DynamicMetadata.Fields["rule"].GetStringValue() != "topic" {
		t.Errorf("%v", out.DynamicMetadata)
	}
}

// Bytes that are no UTF-8, anywhere in the message, do not make the call fail.
func TestShouldRateLimit_DecidesInvalidUTF8(t *testing.T) {
	t.Parallel()
	_, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	for _, descriptors := range [][][]string{
		{{"user", "\xff"}, {"id", "hot"}},
		{{"id", "hot", "\xfe", "\xff"}},
		{{"path", "/topic?user=\xff&id=hot"}},
	} {
		var out ratelimitv3.RateLimitResponse
		if err := call(t, conn, limits, ask("shop", descriptors...), &out); err != nil ||
			out.OverallCode != ratelimitv3.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%q: %v %v", descriptors, out.OverallCode, err)
		}
	}
}

func TestCheck_AnswersLikeOtherListeners(t *testing.T) {
	t.Parallel()
	var got hottype.Request
	s, conn := serve(t, Config{
		Gate:    gateFunc(func(r *hottype.Request) hottype.Verdict { got = *r; return denyHot(r) }),
		Clients: httplimit.NewClients(nil, ""),
	})
	client := authv3.NewAuthorizationClient(conn)
	out, err := client.Check(t.Context(), checkOf("192.0.2.7", &authv3.AttributeContext_HttpRequest{
		Method: "POST", Host: "news.example", Path: "/topic?id=42",
		Headers: map[string]string{"x-forwarded-for": "6.6.6.6"},
	}))
	allowed := out.GetOkResponse().GetResponseHeadersToAdd()
	if err != nil || out.Status.Code != 0 || option(allowed, "ratelimit") != `"topic";r=7;t=2` ||
		option(allowed, "set-cookie") != "" {
		t.Errorf("%v %v", out, err)
	}
	if got.Method != "POST" || got.Host != "news.example" || got.Target != "/topic?id=42" ||
		got.Client.String() != "192.0.2.7" {
		t.Errorf("%+v", got)
	}
	for _, line := range []string{",victim", "x,victim", "victim,"} {
		_, err = client.Check(t.Context(), checkOf("192.0.2.7", &authv3.AttributeContext_HttpRequest{Method: "GET",
			Path: "/topic", Headers: map[string]string{"x-account": line}}))
		if _, several := hottype.HeaderLine(got.Header, "X-Account"); !several || err != nil {
			t.Errorf("Envoy joins lines as %q: %v", line, err)
		}
	}
	out, err = client.Check(t.Context(), checkOf("192.0.2.7",
		&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/topic", Query: "id=hot"}))
	denied := out.GetDeniedResponse()
	if err != nil || out.Status.Code != int32(codes.ResourceExhausted) || denied.GetStatus().GetCode() != 429 ||
		option(denied.GetHeaders(), "retry-after") != "2" || !strings.Contains(denied.GetBody(), `"rule":"topic"`) {
		t.Errorf("%v %v", out, err)
	}
	if st := s.Stats(); st.Checks != 5 || st.Denied != 1 {
		t.Errorf("%+v", st)
	}
}

// A denial by the authorization service hands the client its pass, beside other cookies.
func TestCheck_HandsOutPasses(t *testing.T) {
	t.Parallel()
	_, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	for proto, want := range map[string]string{"https": "__Host-hotparam_0a1b=pass; ", "http": "hotparam_0a1b=pass; "} {
		out, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), checkOf("192.0.2.7",
			&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/topic?id=hot",
				Headers: map[string]string{"x-forwarded-proto": proto}}))
		headers := out.GetDeniedResponse().GetHeaders()
		at := slices.IndexFunc(headers, func(h *corev3.HeaderValueOption) bool { return h.Header.Key == "set-cookie" })
		if err != nil || at < 0 || !strings.HasPrefix(headers[at].Header.Value, want) ||
			headers[at].AppendAction != corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD {
			t.Errorf("%s: %v %v", proto, headers, err)
		}
	}
}

// The client is whom Envoy saw, or whom a trusted proxy in front of Envoy names.
func TestIdentifyClient_TrustsOnlyProxies(t *testing.T) {
	t.Parallel()
	trusting := httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "")
	for name, tc := range map[string]struct {
		peer, header, want string
	}{
		"peer":           {"192.0.2.7", "6.6.6.6", "192.0.2.7"},
		"proxy":          {"10.0.0.1", "6.6.6.6, 192.0.2.9", "192.0.2.9"},
		"proxy, silent":  {"10.0.0.1", "", "10.0.0.1"},
		"proxy, garbage": {"10.0.0.1", "x", "10.0.0.1"},
		"IPv6":           {"2001:db8::7", "", "2001:db8::"},
		"no address":     {"", "192.0.2.9", "192.0.2.9"}, // a unix socket is local
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Config{Gate: gateFunc(denyHot), Clients: trusting})
			in := &checkRequest{source: tc.peer}
			if tc.header != "" {
				in.headers = headerFieldsOf("x-forwarded-for", tc.header)
			}
			var req hottype.Request
			s.identifyClient(&req, in)
			if got := req.Client.String(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// headerFieldsOf returns a header of one field.
func headerFieldsOf(name, value string) (h headerFields) {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	h.add(protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), value))
	return h
}

// The client of a call is charged once, with the first descriptor that says more, and counted with each.
func TestRequestsOf_ChargesTheClientOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   [][]string
		want string
	}{
		"beside": {[][]string{{"remote_address", "192.0.2.7"}, {"id", "1"}, {"id", "2"}},
			"1:192.0.2.7 2:192.0.2.7 charged"},
		"inside": {[][]string{{"id", "1"}, {"id", "2", "remote_address", "192.0.2.7"}},
			"0:192.0.2.7 1:192.0.2.7 charged"},
		"alone": {[][]string{{"remote_address", "192.0.2.7"}, {"remote_address", "192.0.2.8"}}, "0:192.0.2.7"},
		"none":  {[][]string{{}, {}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := &rateLimitRequest{domain: "shop"}
			for _, pairs := range tc.in {
				in.descriptors = append(in.descriptors, *descriptorOf(pairs...))
			}
			var got []string
			for i, r := range requestsOf(in, (*Limits)(nil).resolve(in)) {
				if r != nil {
					text := fmt.Sprintf("%d:%s", i, r.request.Client)
					if r.clientCharged {
						text += " charged"
					}
					got = append(got, text)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%v, want %s", got, tc.want)
			}
		})
	}
}

func TestServer_RejectsMalformedCalls(t *testing.T) {
	t.Parallel()
	s, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	var limited ratelimitv3.RateLimitResponse
	if err := call(t, conn, limits, ask("", []string{"id", "1"}), &limited); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no domain: %v", err)
	}
	if err := call(t, conn, limits, []byte("\x12\xff"), &limited); status.Code(err) != codes.Internal {
		t.Errorf("no message: %v", err)
	}
	if err := call(t, conn, limits, ask("shop"), &limited); err != nil ||
		limited.OverallCode != ratelimitv3.RateLimitResponse_OK {
		t.Errorf("no descriptors: %v", err) // Envoy sends that when every entry was skipped
	}
	var checked authv3.CheckResponse
	if err := call(t, conn, check, nil, &checked); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no HTTP request: %v", err)
	}
	if st := s.Stats(); st.Malformed != 2 || st.Checks != 0 {
		t.Errorf("%+v", st)
	}
}

func TestServer_RequiresTheToken(t *testing.T) {
	t.Parallel()
	s, conn := serve(t, Config{Gate: gateFunc(denyHot), Authorize: func(r *http.Request) bool {
		return r.Header.Get("Authorization") == "Bearer a long secret"
	}})
	var out ratelimitv3.RateLimitResponse
	for _, wrong := range []string{"", "Bearer ", "Bearer a long secreT", "a long secret"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", wrong)
		err := conn.Invoke(ctx, limits, ask("shop", []string{"id", "1"}), &out, grpc.ForceCodecV2(raw{newCodec()}))
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "the gateway is refused") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer a long secret")
	if err := conn.Invoke(ctx, limits, ask("shop", []string{"id", "1"}), &out,
		grpc.ForceCodecV2(raw{newCodec()})); err != nil {
		t.Error(err)
	}
	if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	if st := s.Stats(); st.Unauthorized != 4 || st.Checks != 1 {
		t.Errorf("%+v", st)
	}
}

// Tools such as grpcurl find the services and their schema.
func TestRegisterReflection_ServesTheSchema(t *testing.T) {
	t.Parallel()
	_, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{serviceAuth, serviceRateLimit} {
		ask := &reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}}
		if err := stream.Send(ask); err != nil {
			t.Fatal(err)
		}
		if out, err := stream.Recv(); err != nil || len(out.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("%s: %v %v", service, out, err)
		}
	}
	if err := stream.CloseSend(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func option(list []*corev3.HeaderValueOption, name string) string {
	for _, h := range list {
		if h.Header.Key == name {
			return h.Header.Value
		}
	}
	return ""
}
