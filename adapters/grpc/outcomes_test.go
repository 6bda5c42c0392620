package hotparamgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	hotparamgrpc "github.com/hotparam/pipeline/adapters/grpc"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

const (
	topicPath = testpb.TestService_UnaryCall_FullMethodName
	restPath  = testpb.TestService_CacheableUnaryCall_FullMethodName
)

func TestUnary_ReportsOutcomes(t *testing.T) {
	adaptertest.OutcomesBy(t, "go", topicPath, restPath, func(t *testing.T, p *hotparam.Pipeline,
		answer func(string) (int, string)) adaptertest.Ask {
		c := serve(t, p, hotparamgrpc.Options{Query: query}, service{answer: func(id string) error {
			switch code, text := answer(id); code {
			case 200:
				return nil
			case 503:
				return status.Error(codes.Unavailable, text)
			default:
				return status.Error(codes.Internal, text)
			}
		}})
		return func(t *testing.T, path, id, client string) int {
			call := c.UnaryCall
			if path == restPath {
				call = c.CacheableUnaryCall
			}
			_, err := call(from(t.Context(), client), &testpb.SimpleRequest{Payload: &testpb.Payload{Body: []byte(id)}})
			return adapter.HTTPStatusFromRPC(uint32(status.Code(err)))
		}
	})
}

const oneEach = `
rules:
  - {name: all, match: {path: "/grpc.testing.TestService/{method}"}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
ip: {in_flight: {limit: 1, lease: 1h}, trusted_proxies: [127.0.0.1]}
`

// TestStream_HoldsItsSlotUntilTheEnd checks that a stream holds its slot until it ends, also if its client goes away,
// and that a handler that panics releases its slot.
func TestStream_HoldsItsSlotUntilTheEnd(t *testing.T) {
	p := adaptertest.Pipeline(t, []byte(oneEach))
	c := serve(t, p, hotparamgrpc.Options{Query: query}, service{answer: func(string) error { panic("on purpose") }})
	// open opens a stream and receives one response or the code of a denial.
	open := func(ctx context.Context) (s testpb.TestService_FullDuplexCallClient, code codes.Code) {
		s, err := c.FullDuplexCall(from(ctx, "198.51.100.1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&testpb.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		_, err = s.Recv()
		return s, status.Code(err)
	}
	free := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; {
			s, code := open(t.Context())
			if code == codes.OK {
				_ = s.CloseSend()
				_, _ = s.Recv() // the end of the stream
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: still %v after 30 s", what, code)
			}
		}
	}
	first, code := open(t.Context())
	if code != codes.OK {
		t.Fatal(code)
	}
	if _, code := open(t.Context()); code != codes.ResourceExhausted {
		t.Errorf("a second stream of a client that may have one: %v", code)
	}
	_ = first.CloseSend()
	_, _ = first.Recv()
	free("after the first has ended")

	ctx, leave := context.WithCancel(t.Context())
	if _, code := open(ctx); code != codes.OK && code != codes.ResourceExhausted {
		t.Fatal(code)
	}
	leave()
	free("after its client has left")

	if err := call(from(t.Context(), "198.51.100.2"), c, "7"); status.Code(err) != codes.Unknown {
		t.Fatal(err)
	}
	if err := call(from(t.Context(), "198.51.100.2"), c, "7"); status.Code(err) != codes.Unknown {
		t.Errorf("after a handler that panicked: %v", err)
	}
}

func TestUnary_BelievesFieldsOfProxiesAlone(t *testing.T) {
	adaptertest.Trust(t, "go", topicPath, func(t *testing.T, p *hotparam.Pipeline) adaptertest.AskWith {
		c := serve(t, p, hotparamgrpc.Options{}, service{answer: func(string) error { return nil }})
		return func(t *testing.T, fields map[string]string) int {
			ctx := metadata.NewOutgoingContext(t.Context(), metadata.New(fields))
			_, err := c.UnaryCall(ctx, new(testpb.SimpleRequest))
			return adapter.HTTPStatusFromRPC(uint32(status.Code(err)))
		}
	})
}
