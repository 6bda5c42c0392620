package hotparamconnect_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"

	hotparamconnect "github.com/hotparam/pipeline/adapters/connect"
	"github.com/hotparam/pipeline/internal/testing/adaptertest"
)

// Handlers of calls and of streams find the verdict and the client in their context with InContext alone.
func TestInContext_ReachesHandlers(t *testing.T) {
	t.Parallel()
	for in, want := range map[bool][2]string{
		false: {"-  0 false", "-  0 false"},
		true:  {"198.51.100.1 ip_sliding 2 true", "198.51.100.1 ip_sliding 1 true"},
	} {
		o := hotparamconnect.Options{}
		o.InContext = in
		opts, mux := connect.WithInterceptors(hotparamconnect.New(pipeline(t), o)), http.NewServeMux()
		mux.Handle("/shop.v1.Topics/Get", connect.NewUnaryHandler("/shop.v1.Topics/Get",
			func(ctx context.Context, _ *connect.Request[text]) (*connect.Response[text], error) {
				return connect.NewResponse(&text{Value: adaptertest.Judged(ctx)}), nil
			}, opts))
		mux.Handle("/shop.v1.Topics/Add", connect.NewClientStreamHandler("/shop.v1.Topics/Add",
			func(ctx context.Context, _ *connect.ClientStream[text]) (*connect.Response[text], error) {
				return connect.NewResponse(&text{Value: adaptertest.Judged(ctx)}), nil
			}, opts))
		s := httptest.NewServer(mux)
		r := connect.NewRequest(&text{})
		r.Header().Set("X-Forwarded-For", "198.51.100.1")
		call, err := connect.NewClient[text, text](s.Client(), s.URL+"/shop.v1.Topics/Get").CallUnary(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		stream := connect.NewClient[text, text](s.Client(), s.URL+"/shop.v1.Topics/Add").CallClientStream(t.Context())
		stream.RequestHeader().Set("X-Forwarded-For", "198.51.100.1")
		opened, err := stream.CloseAndReceive()
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{call.Msg.GetValue(), opened.Msg.GetValue()}; got != want {
			t.Errorf("InContext %v: %q, want %q", in, got, want)
		}
		s.Close()
	}
}
