package rediscontrol

import (
	"testing"
	"time"
)

// testBaseLatenciesAreKept stores latencies, which another process reads, for seven days.
func testBaseLatenciesAreKept(t *testing.T, s server) {
	f := s.open(t)
	if text, err := f.ReadBases(t.Context()); err != nil || text != nil {
		t.Errorf("before the first: %q, %v", text, err)
	}
	for _, text := range []string{"{}", `{"default":{}}`} {
		if err := f.WriteBases(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.open(t).ReadBases(t.Context()); err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	if life := s.raw.PTTL(t.Context(), f.keys.BaseLatency()).Val(); life > baseLife || life < baseLife-time.Hour {
		t.Errorf("they live for %v", life)
	}
}
