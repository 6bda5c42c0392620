package envoy

import (
	"context"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// A client cannot avoid the denial of its key by the size of its request: surplus fields and bodies are skipped, and a
// request that cannot be kept is denied.
func TestCheck_DeniesHoweverLongTheRequestIs(t *testing.T) {
	t.Parallel()
	s, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	fields := map[string]string{}
	for range 2000 {
		fields["x-"+strings.Repeat("y", len(fields))] = "v"
	}
	for name, http := range map[string]*authv3.AttributeContext_HttpRequest{
		"fields":     {Path: "/topic?id=hot", Headers: fields},
		"body":       {Path: "/topic?id=hot", Body: strings.Repeat("z", 3<<20)},
		"raw body":   {Path: "/topic?id=hot", RawBody: make([]byte, 1<<20)},
		"long field": {Path: "/topic?id=1", Headers: map[string]string{"x": strings.Repeat("z", 5<<20)}},
	} {
		out, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), checkOf("192.0.2.7", http))
		if err != nil || out.GetDeniedResponse().GetStatus().GetCode() != 429 {
			t.Errorf("%s: %v %.200v", name, err, out)
		}
	}
	var limited ratelimitv3.RateLimitResponse
	if err := call(t, conn, limits, ask("shop", []string{"id", strings.Repeat("z", maxKept)}), &limited); err != nil ||
		limited.OverallCode != ratelimitv3.RateLimitResponse_OVER_LIMIT {
		t.Errorf("a long descriptor: %v %v", err, &limited)
	}
	if st := s.Stats(); st.TooLong != 2+1 || st.ManyFields != 0 || st.Checks != 5 || st.Denied != 5 {
		t.Errorf("%+v", st)
	}
}

func TestCheck_CountsSurplusFields(t *testing.T) {
	t.Parallel()
	s := New(Config{Gate: gateFunc(denyHot)})
	for _, n := range []int{usualFields, usualFields + 1} {
		if _, err := s.check(t.Context(), &checkRequest{isHTTP: true, path: "/", headers: headerFields{count: n}}); err != nil {
			t.Error(err)
		}
	}
	if st := s.Stats(); st.ManyFields != 1 {
		t.Errorf("%+v", st)
	}
}

// A request without a path, as CONNECT is, has a verdict: an error would let it pass the blocks of its client.
func TestCheck_DecidesAboutRequestsWithoutPath(t *testing.T) {
	t.Parallel()
	var got string
	_, conn := serve(t, Config{Gate: gateFunc(func(r *hottype.Request) hottype.Verdict {
		got = r.Target
		return hottype.Verdict{}
	})})
	out, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), checkOf("192.0.2.7",
		&authv3.AttributeContext_HttpRequest{Method: "CONNECT", Host: "news.example:443"}))
	if err != nil || out.GetDeniedResponse() == nil || got != "news.example:443" {
		t.Errorf("%q: %v %v", got, err, out)
	}
}

// Calls under way take their bytes of the account until they have ended, and calls beyond it are rejected before any
// byte of their messages is kept. Health checks go on.
func TestAccount_BoundsTheCallsUnderWay(t *testing.T) {
	t.Parallel()
	s, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	s.calls.most = 3 * callBytes
	open := func() (grpc.ClientStream, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, check)
		if err != nil {
			t.Fatal(err)
		}
		return stream, cancel
	}
	awaitHeld := func(least, most int64) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			held := s.calls.held.Load()
			if held >= least && held <= most {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d bytes are held, want %d to %d", held, least, most)
			}
		}
	}
	_, endFirst := open()
	_, endSecond := open()
	defer endSecond()
	awaitHeld(2*callBytes, 3*callBytes)
	third, endThird := open()
	defer endThird()
	if err := third.RecvMsg(new(authv3.CheckResponse)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the third: %v", err)
	}
	if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	if busy := s.Stats().Busy; busy != 1 {
		t.Errorf("%d calls found no memory", busy)
	}
	endFirst()
	awaitHeld(callBytes, 2*callBytes-1)
	out, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), checkOf("192.0.2.7",
		&authv3.AttributeContext_HttpRequest{Path: "/topic?id=hot"}))
	if err != nil || out.GetDeniedResponse() == nil {
		t.Errorf("%v %v", err, out)
	}
	if err := call(t, conn, "/"+serviceAuth+"/Unknown", nil, out); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that does not exist: %v", err)
	}
	endSecond()
	awaitHeld(0, 0)
}

// A call that waits for its turn holds few bytes of the account.
func TestAccount_HoldsLittleForWaitingCalls(t *testing.T) {
	t.Parallel()
	in := messageOf(marshal(t, checkOf("192.0.2.7", &authv3.AttributeContext_HttpRequest{Path: "/topic"})), chunk)
	in.share.bytes = callBytes
	in.share.account.held.Store(callBytes)
	if err := new(checkRequest).receiveMessage(in); err != nil {
		t.Fatal(err)
	}
	if err := in.close(); err != nil {
		t.Fatal(err)
	}
	if held := in.share.account.held.Load(); held > 10<<10 || held != in.share.bytes {
		t.Errorf("%d bytes are held, %d are of the call", held, in.share.bytes)
	}
}
