package rediscontrol

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func secretOf(day int64, b byte) visitorpass.DaySecret {
	return visitorpass.DaySecret{Day: day, Secret: visitorpass.Secret{b}}
}

// testLimitersAgreeOnSecrets lets limiters propose at the same time: all get the secret of the first limiter, which
// outlives the passes of its day. A limiter without a proposal reads it too, and one that knows it writes it to a Redis
// that has lost it.
func testLimitersAgreeOnSecrets(t *testing.T, s server) {
	today := visitorpass.Day(time.Now())
	agreed := make([][]visitorpass.DaySecret, 8)
	var all sync.WaitGroup
	for i := range agreed {
		f := s.open(t)
		all.Go(func() {
			var err error
			agreed[i], err = f.AgreeOnSecrets(t.Context(), []visitorpass.DaySecret{{Day: today - 1},
				secretOf(today, byte(i+1)), secretOf(today+1, byte(i+1))})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, got := range agreed {
		if len(got) != 2 || got[0].Day != today || got[1].Day != today+1 || !slices.Equal(got, agreed[0]) {
			t.Fatal("limiters do not agree")
		}
	}
	f := s.open(t)
	read, err := f.AgreeOnSecrets(t.Context(), []visitorpass.DaySecret{{Day: today}})
	if err != nil || !slices.Equal(read, agreed[0][:1]) {
		t.Errorf("without a proposal: %d secrets, %v", len(read), err)
	}
	key := f.keys.PassSecret(today)
	life := s.raw.PTTL(t.Context(), key).Val()
	if left := time.Until(visitorpass.EndOfPasses(today)); life < left || life > left+2*secretSlack {
		t.Errorf("the secret lives for %v, and passes for %v", life, left)
	}
	if err := s.raw.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AgreeOnSecrets(t.Context(), read); err != nil {
		t.Error(err)
	}
	if again, err := s.open(t).AgreeOnSecrets(t.Context(), []visitorpass.DaySecret{secretOf(today, 99)}); err != nil ||
		!slices.Equal(again, read) {
		t.Errorf("after a loss: another secret, %v", err)
	}
}

// TestAgreeOnSecrets_FailsWithoutNamingSecrets reads what another program wrote, and asks a Redis that does not answer.
func TestAgreeOnSecrets_FailsWithoutNamingSecrets(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: "test"})
	proposals := []visitorpass.DaySecret{secretOf(7, 1), secretOf(8, 2)}
	text := secretOf(7, 1).Secret.Encode()
	for day, value := range map[int64]string{7: text + text, 8: secretOf(8, 3).Secret.Encode()} {
		if err := s.Client().Set(t.Context(), f.keys.PassSecret(day), value, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.AgreeOnSecrets(t.Context(), proposals)
	if err == nil || !strings.Contains(err.Error(), f.keys.PassSecret(7)) || strings.Contains(err.Error(), text[:8]) {
		t.Error(err)
	}
	if !slices.Equal(got, []visitorpass.DaySecret{secretOf(8, 3)}) {
		t.Errorf("%d secrets beside the wrong one", len(got))
	}
	s.Kill()
	if got, err := f.AgreeOnSecrets(t.Context(), proposals); err == nil || len(got) > 0 ||
		strings.Contains(err.Error(), text[:8]) {
		t.Errorf("without Redis: %d secrets, %v", len(got), err)
	}
}
