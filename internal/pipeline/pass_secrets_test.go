package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// secretsInMemory is a store that may fail. The lock guards its fields.
type secretsInMemory struct {
	sync.Mutex
	err   error
	calls int
	held  map[int64]visitorpass.Secret
}

func newSecretsInMemory() *secretsInMemory {
	return &secretsInMemory{held: map[int64]visitorpass.Secret{}}
}

func (s *secretsInMemory) fail(err error) {
	s.Lock()
	defer s.Unlock()
	s.err = err
}

func (s *secretsInMemory) countCalls() int {
	s.Lock()
	defer s.Unlock()
	return s.calls
}

func (s *secretsInMemory) AgreeOnSecrets(_ context.Context,
	proposals []visitorpass.DaySecret) (agreed []visitorpass.DaySecret, err error) {
	s.Lock()
	defer s.Unlock()
	s.calls++
	if s.err != nil {
		return nil, s.err
	}
	for _, d := range proposals {
		if _, ok := s.held[d.Day]; !ok && d.Secret != (visitorpass.Secret{}) {
			s.held[d.Day] = d.Secret
		}
		if held, ok := s.held[d.Day]; ok {
			agreed = append(agreed, visitorpass.DaySecret{Day: d.Day, Secret: held})
		}
	}
	return agreed, nil
}

func mustParse(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const passRules = `
rules: [{name: pages, match: {path: /}, params: [], hot: {rate: 5}, limit: {rate: 8, priority: [visitor]}}]
classes: [{name: visitor, pass_age: 10s}]
`

// keepSecrets runs a pipeline's part that keeps secrets, in a bubble, and returns the pipeline and its log.
func keepSecrets(t *testing.T, text string, store SecretStore) (*Pipeline, *redistest.Log) {
	t.Helper()
	log := &redistest.Log{}
	p := &Pipeline{Hot: new(hotset.Replica)} // without detection, which ticks ten times a second
	p.Wire(Config{Rules: mustParse(t, text), Gate: gate.Config{Log: log.Logger()}}, nil)
	p.KeepSecrets(store)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, time.Minute, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return p, log
}

// TestKeepSecrets_CoversEachMoment issues a pass in each hour of three days: there is a secret for it, and the pass of
// 23 hours ago is recognised too, also by a process that starts then.
func TestKeepSecrets_CoversEachMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newSecretsInMemory()
		p, log := keepSecrets(t, passRules, store)
		client := netip.MustParseAddr("192.0.2.7")
		var passes []string
		for hour := range 72 {
			pass := p.Passes.Issue(time.Now(), client)
			if passes = append(passes, pass); pass == "" || p.passStats().NoSecret {
				t.Fatalf("hour %d: no pass", hour)
			}
			if hour >= 23 {
				if _, ok := p.Passes.Age(time.Now(), passes[hour-23], client); !ok {
					t.Fatalf("hour %d: the pass of 23 hours ago is not recognised", hour)
				}
				later := visitorpass.New("default")
				agreed, _ := store.AgreeOnSecrets(t.Context(), later.NeededSecrets(time.Now()))
				for _, d := range agreed {
					later.SetSecret(d.Day, d.Secret)
				}
				if _, ok := later.Age(time.Now(), passes[hour-23], client); !ok {
					t.Fatalf("hour %d: a new process does not recognise the pass of 23 hours ago", hour)
				}
			}
			time.Sleep(time.Hour)
		}
		store.Lock()
		defer store.Unlock()
		if len(store.held) != 4 || log.String() != "" {
			t.Errorf("%d secrets; %s", len(store.held), log)
		}
	})
}

// TestKeepSecrets_WritesKnownSecretsBack lets the store lose its secrets: it gets the same ones again.
func TestKeepSecrets_WritesKnownSecretsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newSecretsInMemory()
		p, _ := keepSecrets(t, passRules, store)
		client := netip.MustParseAddr("192.0.2.7")
		began := time.Now()
		day, pass := visitorpass.Day(began), p.Passes.Issue(began, client)
		replace := func(held map[int64]visitorpass.Secret) (replaced map[int64]visitorpass.Secret) {
			store.Lock()
			defer store.Unlock()
			replaced, store.held = store.held, held
			return replaced
		}
		replace(map[int64]visitorpass.Secret{})
		time.Sleep(2 * secretsEvery)
		rewritten := replace(map[int64]visitorpass.Secret{day: {1}}) // another process was faster
		if rewritten[day] == (visitorpass.Secret{}) || p.Passes.Issue(began, client) != pass {
			t.Error("another secret, or none")
		}
		time.Sleep(2 * secretsEvery)
		_, ok := p.Passes.Age(began, pass, client)
		if p.Passes.Issue(began, client) == pass || !ok {
			t.Error("the secret of the store does not sign, or the one before is not accepted")
		}
	})
}

// TestKeepSecrets_LogsOnceWithoutSecret starts while the store fails, and lets it fail again later.
func TestKeepSecrets_LogsOnceWithoutSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newSecretsInMemory()
		store.fail(errors.New("refused"))
		p, log := keepSecrets(t, passRules, store)
		time.Sleep(10 * secretsEvery)
		if n := strings.Count(log.String(), "refused"); n != 1 || !p.passStats().NoSecret {
			t.Errorf("%d lines in the log, no secret is %v: %s", n, p.passStats().NoSecret, log)
		}
		store.fail(nil)
		time.Sleep(2 * secretsEvery)
		store.fail(errors.New("refused"))
		time.Sleep(2 * secretsEvery)
		if n := strings.Count(log.String(), "refused"); n != 1 || p.passStats().NoSecret {
			t.Errorf("with a known secret: %d lines in the log, no secret is %v", n, p.passStats().NoSecret)
		}
	})
}

// TestKeepSecrets_NeedsNoStoreWithoutPasses changes the rules to such that use passes.
func TestKeepSecrets_NeedsNoStoreWithoutPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newSecretsInMemory()
		p, _ := keepSecrets(t, "rules: [{name: pages, match: {path: /}, params: [], hot: {rate: 5}}]", store)
		time.Sleep(10 * secretsEvery)
		if store.countCalls() > 0 || p.passStats().NoSecret {
			t.Errorf("%d calls, no secret is %v", store.countCalls(), p.passStats().NoSecret)
		}
		p.SetRules(mustParse(t, passRules))
		time.Sleep(2 * secretsEvery)
		if store.countCalls() == 0 || p.passStats().NoSecret {
			t.Errorf("with passes: %d calls, no secret is %v", store.countCalls(), p.passStats().NoSecret)
		}
	})
}
