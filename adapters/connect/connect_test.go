package hotparamconnect_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	hotparamconnect "github.com/hotparam/pipeline/adapters/connect"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

const rules = `
rules:
  - {name: topic, match: {path: "/shop.v1.Topics/{method}", methods: [POST]}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
overrides:
  - {key: "topic?id=42", action: block}
ip: {sliding: {limit: 3, window: 1h}, trusted_proxies: [127.0.0.1]}
`

type text = wrapperspb.StringValue

func query(c hotparamconnect.Call) url.Values {
	if m, ok := c.Message.(*text); ok {
		return url.Values{"id": {m.GetValue()}}
	}
	return nil
}

// site returns a server with a service of three procedures: two may be called by GET, one is a stream.
func site(t *testing.T, o hotparamconnect.Options) *httptest.Server {
	t.Helper()
	return serve(t, pipeline(t), o, func(string) error { return nil })
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

func serve(t *testing.T, p *hotparam.Pipeline, o hotparamconnect.Options,
	answer func(id string) error) *httptest.Server {
	t.Helper()
	opts := connect.WithHandlerOptions(
		connect.WithInterceptors(hotparamconnect.New(p, o)), connect.WithIdempotency(connect.IdempotencyNoSideEffects),
	)
	mux := http.NewServeMux()
	for _, procedure := range []string{"/shop.v1.Topics/Get", "/shop.v1.Topics/List"} {
		mux.Handle(procedure, connect.NewUnaryHandler(procedure,
			func(_ context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
				return connect.NewResponse(r.Msg), answer(r.Msg.GetValue())
			}, opts))
	}
	mux.Handle("/shop.v1.Topics/Add", connect.NewClientStreamHandler("/shop.v1.Topics/Add",
		func(_ context.Context, s *connect.ClientStream[text]) (*connect.Response[text], error) {
			for s.Receive() {
			}
			return connect.NewResponse(&text{Value: "done"}), s.Err()
		}, opts))
	s := httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handlers that panic on purpose
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *httptest.Server, id, client string, opts ...connect.ClientOption) (http.Header, error) {
	t.Helper()
	opts = append(opts, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	c := connect.NewClient[text, text](s.Client(), s.URL+"/shop.v1.Topics/Get", opts...)
	r := connect.NewRequest(&text{Value: id})
	r.Header().Set("X-Forwarded-For", client)
	out, err := c.CallUnary(t.Context(), r)
	if err != nil {
		return nil, err
	}
	return out.Header(), nil
}

func TestWrapUnary_LimitsCalls(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]connect.ClientOption{
		"connect": nil, "connect by GET": {connect.WithHTTPGet()}, "grpc": {connect.WithGRPC()},
		"grpc-web": {connect.WithGRPCWeb()},
	} {
		s := site(t, hotparamconnect.Options{Query: query})
		for id, want := range map[string]connect.Code{"42": connect.CodeResourceExhausted, "4%32": 0, "7&id=42": 0} {
			if _, err := get(t, s, id, "198.51.100.2", opts...); err == nil && want != 0 ||
				err != nil && connect.CodeOf(err) != want {
				t.Errorf("%s: %q: %v, want %v", name, id, err, want)
			}
		}
		for range 3 {
			if h, err := get(t, s, "7", "198.51.100.1", opts...); err != nil || h.Get("RateLimit") == "" {
				t.Errorf("%s: %v %v", name, err, h)
			}
		}
		_, err := get(t, s, "7", "198.51.100.1", opts...)
		var refused *connect.Error
		if !errors.As(err, &refused) || refused.Code() != connect.CodeResourceExhausted ||
			refused.Meta().Get("Retry-After") == "" ||
			refused.Meta().Get("RateLimit-Policy") == "" || len(refused.Details()) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		detail, err := refused.Details()[0].Value()
		if info, ok := detail.(*errdetails.RetryInfo); err != nil || !ok || info.GetRetryDelay().AsDuration() <= 0 {
			t.Errorf("%s: %v %v", name, detail, err)
		}
	}
}

func TestWrapStreamingHandler_LimitsStreams(t *testing.T) {
	t.Parallel()
	for each, want := range map[bool]connect.Code{false: 0, true: connect.CodeResourceExhausted} {
		s := site(t, hotparamconnect.Options{Query: query, EachMessage: each})
		c := connect.NewClient[text, text](s.Client(), s.URL+"/shop.v1.Topics/Add")
		stream := c.CallClientStream(t.Context())
		_ = stream.Send(&text{Value: "7"}) // CloseAndReceive returns the error
		_ = stream.Send(&text{Value: "42"})
		_, err := stream.CloseAndReceive()
		if err == nil && want != 0 || err != nil && connect.CodeOf(err) != want {
			t.Errorf("each message %v: %v, want %v", each, err, want)
		}
	}
}

// Streams open before their topic is known, so an opening is not counted for the key of calls without a topic. Their
// messages are counted for the topics that they name.
func TestWrapStreamingHandler_OpensWithoutACount(t *testing.T) {
	t.Parallel()
	for each, want := range map[bool]uint64{false: 0, true: 4} {
		p := pipeline(t)
		s := serve(t, p, hotparamconnect.Options{Query: query, EachMessage: each}, func(string) error { return nil })
		c := connect.NewClient[text, text](s.Client(), s.URL+"/shop.v1.Topics/Add")
		for _, id := range []string{"1", "2", "3", "4"} {
			stream := c.CallClientStream(t.Context())
			stream.RequestHeader().Set("X-Forwarded-For", "198.51.100."+id)
			if err := stream.Send(&text{Value: id}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.CloseAndReceive(); err != nil {
				t.Fatal(err)
			}
		}
		if n := p.Stats().Counted; n != want {
			t.Errorf("each message %v: %d are counted, want %d", each, n, want)
		}
	}
}

func TestOptions_ApplyToCalls(t *testing.T) {
	t.Parallel()
	o := hotparamconnect.Options{Query: query}
	o.Skip = func(c hotparamconnect.Call) bool { return c.Message.(*text).GetValue() == "health" }
	o.Deny = func(_ hotparamconnect.Call, v *hotparam.Verdict) error {
		if v.Reason == hottype.ReasonBlocked {
			return nil // the default denial
		}
		return connect.NewError(connect.CodeUnavailable, errors.New("later"))
	}
	o.Cost = func(hotparamconnect.Call) int64 { return 3 }
	s := site(t, o)
	for i, c := range []struct {
		id   string
		want connect.Code
	}{{"7", 0}, {"7", connect.CodeUnavailable}, {"42", connect.CodeResourceExhausted}, {"health", 0}} {
		if _, err := get(t, s, c.id, "198.51.100.1"); err == nil && c.want != 0 ||
			err != nil && connect.CodeOf(err) != c.want {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
}
