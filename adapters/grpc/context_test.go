package hotparamgrpc_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	hotparamgrpc "github.com/hotparam/pipeline/adapters/grpc"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

// opened is a stream that opens.
type opened struct {
	grpc.ServerStream
	ctx context.Context
}

func (s opened) Context() context.Context { return s.ctx }

// Handlers of calls and of streams find the verdict and the client in their context with InContext alone.
func TestInContext_ReachesHandlers(t *testing.T) {
	t.Parallel()
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-forwarded-for", "198.51.100.1"))
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}})
	for in, want := range map[bool][2]string{
		false: {"-  0 false", "-  0 false"},
		true:  {"198.51.100.1 ip_sliding 2 true", "198.51.100.1 ip_sliding 1 true"},
	} {
		o, p, got := hotparamgrpc.Options{}, pipeline(t), [2]string{}
		o.InContext = in
		_, err := hotparamgrpc.Unary(p, o)(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/grpc.testing.TestService/UnaryCall"},
			func(ctx context.Context, _ any) (any, error) {
				got[0] = adaptertest.Judged(ctx)
				return nil, nil
			})
		if err != nil {
			t.Error(err)
		}
		info := &grpc.StreamServerInfo{FullMethod: "/grpc.testing.TestService/FullDuplexCall"}
		err = hotparamgrpc.Stream(p, o)(nil, opened{ctx: ctx}, info,
			func(_ any, s grpc.ServerStream) error {
				got[1] = adaptertest.Judged(s.Context())
				return nil
			})
		if err != nil || got != want {
			t.Errorf("InContext %v: %q, want %q, %v", in, got, want, err)
		}
	}
}
