package envoy

import (
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An unknown method is answered without its name, which may be as long as the header of a call.
func TestServer_DoesNotQuoteAnUnknownMethod(t *testing.T) {
	t.Parallel()
	_, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	for _, name := range []string{"/x/", "/" + serviceAuth + "/"} {
		method := name + strings.Repeat("y", 30_000)
		err := conn.Invoke(t.Context(), method, new(authv3.CheckRequest), new(authv3.CheckResponse))
		if st := status.Convert(err); st.Code() != codes.Unimplemented || len(st.Message()) > 100 {
			t.Errorf("%.200v", err)
		}
	}
}
