package envoy

import (
	"context"
	"testing"
)

// BenchmarkShouldRateLimit is one call of the rate limit service without gRPC's transport: read,
// decided by a gate that costs nothing, answered, encoded.
func BenchmarkShouldRateLimit(b *testing.B) {
	for name, id := range map[string]string{"allow": "1", "deny": "hot"} {
		b.Run(name, func(b *testing.B) {
			s, c := New(Config{Gate: gateFunc(denyHot)}), newCodec()
			in := ask("topic", []string{"id", id})
			b.ReportAllocs()
			for b.Loop() {
				var r rateLimitRequest
				if err := r.unmarshal(in); err != nil {
					b.Fatal(err)
				}
				out, err := s.shouldRateLimit(context.Background(), &r)
				if err != nil {
					b.Fatal(err)
				}
				bytes, err := c.Marshal(out)
				if err != nil {
					b.Fatal(err)
				}
				bytes.Free()
			}
		})
	}
}
