package distributed_test

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/pipeline/distributed"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// TestLimiters_RecogniseEachOthersPasses issues a pass in each of two limiters, also after Redis has lost its data. The
// secret is in no log.
func TestLimiters_RecogniseEachOthersPasses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	set, err := rules.Parse("test.yaml", []byte("rules: [{name: pages, match: {path: /}, params: [], hot: {rate: 10}, "+
		"limit: {rate: 8, priority: [visitor]}}]\nclasses: [{name: visitor, pass_age: 10s}]"))
	if err != nil {
		t.Fatal(err)
	}
	log := &redistest.Log{}
	verbose := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	begin := func() *distributed.Pipeline {
		c, err := redisclient.Open(redisclient.Config{Addrs: []string{server.Addr()}, Namespace: "news",
			Timeout: redistest.Patience, Log: verbose})
		p := distributed.New(pipeline.Config{Rules: set, Gate: gate.Config{Log: verbose}},
			distributed.Shared{Store: redistest.MustOpen(t, c, err)})
		redistest.Running(t, func(ctx context.Context) error { return p.Run(ctx, redistest.Patience, verbose) })
		return p
	}
	client := netip.MustParseAddr("192.0.2.7")
	recognised := func(by *distributed.Pipeline, pass string) func() bool {
		return func() bool {
			_, ok := by.Passes.Age(time.Now(), pass, client)
			return ok
		}
	}
	issued := func(p *distributed.Pipeline) (pass string) {
		redistest.Eventually(t, "a pass", func() bool {
			pass = p.Passes.Issue(time.Now(), client)
			return pass != ""
		})
		return pass
	}
	one := begin()
	pass := issued(one)
	server.Flush()
	redistest.Eventually(t, "the secret to be written back", func() bool {
		return server.Client().Exists(t.Context(), passKeys(server)...).Val() > 0
	})
	other := begin()
	redistest.Eventually(t, "the other limiter to recognise a pass from before the loss", recognised(other, pass))
	redistest.Eventually(t, "the first limiter to recognise a pass of the other", recognised(one, issued(other)))
	for _, key := range passKeys(server) {
		secret := server.Client().Get(t.Context(), key).Val()
		if secret == "" || strings.Contains(log.String(), secret) {
			t.Errorf("%s holds nothing, or the log has it", key)
		}
	}
}

// passKeys returns the keys of secrets, and at least one key.
func passKeys(s *redistest.Server) []string {
	keys := []string{"hp:{news}:pass:none"}
	for _, key := range s.Keys() {
		if strings.HasPrefix(key, "hp:{news}:pass:secret:") {
			keys = append(keys, key)
		}
	}
	return keys[min(1, len(keys)-1):]
}
