package envoy

import (
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Health is known of the server and of each service, by the names that Envoy and envoyproxy/ratelimit have for them.
func TestServer_ReportsHealthOfEachService(t *testing.T) {
	t.Parallel()
	_, conn := serve(t, Config{Gate: gateFunc(denyHot)})
	client := healthv1.NewHealthClient(conn)
	for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService",
		"envoy.service.auth.v3.Authorization"} {
		got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
		if err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "other"}); status.Code(err) !=
		codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
}
