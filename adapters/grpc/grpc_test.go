package hotparamgrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	hotparamgrpc "github.com/hotparam/pipeline/adapters/grpc"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

const rules = `
rules:
  - {name: topic, match: {path: "/grpc.testing.TestService/{method}"}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
overrides:
  - {key: "topic?id=42", action: block}
ip: {sliding: {limit: 3, window: 1h}, trusted_proxies: [127.0.0.1]}
`

type service struct {
	testpb.UnimplementedTestServiceServer
	answer func(id string) error // nil returns no errors
}

func (s service) UnaryCall(_ context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if s.answer == nil {
		return &testpb.SimpleResponse{}, nil
	}
	return &testpb.SimpleResponse{}, s.answer(string(in.GetPayload().GetBody()))
}

func (s service) CacheableUnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return s.UnaryCall(ctx, in)
}

// FullDuplexCall responds to each message.
func (service) FullDuplexCall(s grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest,
	testpb.StreamingOutputCallResponse]) error {
	for {
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// query returns the id from the field of the request that the test fills.
func query(c hotparamgrpc.Call) url.Values {
	switch m := c.Message.(type) {
	case *testpb.SimpleRequest:
		return url.Values{"id": {string(m.GetPayload().GetBody())}}
	case *testpb.StreamingOutputCallRequest:
		return url.Values{"id": {string(m.GetPayload().GetBody())}}
	}
	return nil
}

func dial(t *testing.T, o hotparamgrpc.Options) testpb.TestServiceClient {
	t.Helper()
	return serve(t, pipeline(t), o, service{})
}

func pipeline(t *testing.T) *hotparam.Pipeline {
	t.Helper()
	set, err := hotparam.ParseRules("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve starts a server and returns a client of it. A call that panics ends with UNKNOWN.
func serve(t *testing.T, p *hotparam.Pipeline, o hotparamgrpc.Options, impl service) testpb.TestServiceClient {
	t.Helper()
	recovered := func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any,
		err error) {
		defer func() {
			if recover() != nil {
				err = status.Error(codes.Unknown, "panic")
			}
		}()
		return next(ctx, in)
	}
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(recovered, hotparamgrpc.Unary(p, o)),
		grpc.StreamInterceptor(hotparamgrpc.Stream(p, o)))
	testpb.RegisterTestServiceServer(s, impl)
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return testpb.NewTestServiceClient(conn)
}

func call(ctx context.Context, c testpb.TestServiceClient, id string, opts ...grpc.CallOption) error {
	_, err := c.UnaryCall(ctx, &testpb.SimpleRequest{Payload: &testpb.Payload{Body: []byte(id)}}, opts...)
	return err
}

func from(ctx context.Context, client string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-forwarded-for", client)
}

func TestUnary_LimitsCalls(t *testing.T) {
	t.Parallel()
	c := dial(t, hotparamgrpc.Options{Query: query})
	ctx := from(t.Context(), "198.51.100.1")
	var header, trailer metadata.MD
	if err := call(ctx, c, "7", grpc.Header(&header)); err != nil || len(header["ratelimit"]) != 1 {
		t.Errorf("another topic: %v %v", err, header)
	}
	// The content of the field is the value in the key, and changes nothing else of it.
	for id, want := range map[string]codes.Code{"42": codes.ResourceExhausted, "4%32": codes.OK, "7&id=42": codes.OK} {
		if err := call(from(t.Context(), "198.51.100.2"), c, id); status.Code(err) != want {
			t.Errorf("%q: %v, want %v", id, err, want)
		}
	}
	if err := errors.Join(call(ctx, c, "7"), call(ctx, c, "8")); err != nil {
		t.Error(err)
	}
	err := call(ctx, c, "9", grpc.Trailer(&trailer))
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || len(st.Details()) != 1 || len(trailer["retry-after"]) != 1 ||
		len(trailer["ratelimit-policy"]) != 1 {
		t.Fatalf("the fourth of a client: %v %v %v", err, st.Details(), trailer)
	}
	if delay := st.Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration(); delay <= 0 ||
		delay > 2*time.Hour {
		t.Errorf("retry after %v", delay)
	}
	if err := call(from(t.Context(), "198.51.100.3"), c, "9"); err != nil {
		t.Errorf("another client: %v", err)
	}
}

func TestStream_LimitsStreams(t *testing.T) {
	t.Parallel()
	for name, each := range map[string]bool{"opening": false, "messages": true} {
		c := dial(t, hotparamgrpc.Options{Query: query, EachMessage: each})
		s, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []codes.Code
		for _, id := range []string{"7", "42"} {
			if err := s.Send(&testpb.StreamingOutputCallRequest{
				Payload: &testpb.Payload{Body: []byte(id)}}); err != nil {
				t.Fatal(err)
			}
			_, err := s.Recv()
			got = append(got, status.Code(err))
		}
		want := codes.OK
		if each {
			want = codes.ResourceExhausted
		}
		if got[0] != codes.OK || got[1] != want {
			t.Errorf("%s: %v", name, got)
		}
		_ = s.CloseSend()
		if each {
			continue
		}
		refused := 0
		for range 4 {
			s, err := c.FullDuplexCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = s.CloseSend()
			if _, err := s.Recv(); status.Code(err) == codes.ResourceExhausted {
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%d of the last four streams of a client that may open three were refused, want 2", refused)
		}
	}
}

// Streams open before their topic is known, so an opening is not counted for the key of calls without a topic. Their
// messages are counted for the topics that they name.
func TestStream_OpensWithoutACount(t *testing.T) {
	t.Parallel()
	for each, want := range map[bool]uint64{false: 0, true: 4} {
		p := pipeline(t)
		c := serve(t, p, hotparamgrpc.Options{Query: query, EachMessage: each}, service{})
		for i, id := range []string{"1", "2", "3", "4"} {
			s, err := c.FullDuplexCall(from(t.Context(), "198.51.100."+id))
			if err != nil {
				t.Fatal(i, err)
			}
			if err := s.Send(&testpb.StreamingOutputCallRequest{
				Payload: &testpb.Payload{Body: []byte(id)}}); err != nil {
				t.Fatal(i, err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(i, err)
			}
			_ = s.CloseSend()
		}
		if n := p.Stats().Counted; n != want {
			t.Errorf("each message %v: %d are counted, want %d", each, n, want)
		}
	}
}

func TestOptions_ApplyToCalls(t *testing.T) {
	t.Parallel()
	o := hotparamgrpc.Options{Query: query}
	o.Client = func(c hotparamgrpc.Call) (string, error) {
		md, _ := metadata.FromIncomingContext(c.Context)
		if user := md["x-user"]; len(user) == 1 {
			return user[0], nil
		}
		return "", errors.New("nobody")
	}
	o.OnClientError = func(hotparamgrpc.Call, error) error {
		return status.Error(codes.Unauthenticated, "who are you?")
	}
	o.Deny = func(_ hotparamgrpc.Call, v *hotparam.Verdict) error {
		if v.Reason == hottype.ReasonBlocked {
			return nil // the default denial
		}
		return status.Error(codes.Unavailable, "later")
	}
	o.Cost = func(hotparamgrpc.Call) int64 { return 3 }
	c := dial(t, o)
	as := func(user string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "x-user", user)
	}
	for i, want := range []struct {
		ctx  context.Context
		id   string
		code codes.Code
	}{
		{t.Context(), "7", codes.Unauthenticated}, {as("anna"), "7", codes.OK}, {as("anna"), "7", codes.Unavailable},
		{as("bert"), "42", codes.ResourceExhausted},
	} {
		if err := call(want.ctx, c, want.id); status.Code(err) != want.code {
			t.Errorf("%d: %v, want %v", i, err, want.code)
		}
	}
}
