package pipeline

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/wait"
)

// secretsEvery is the interval at which the store of secrets is read.
const secretsEvery = 2 * time.Second

// SecretStore keeps the secrets of passes. *rediscontrol.Feed and *filestore.PassSecrets are SecretStores.
type SecretStore interface {
	// AgreeOnSecrets returns the stored secrets of the days of proposals, after it has stored the proposals for days
	// without a secret. A zero secret is not stored. With an error it may return some of them.
	AgreeOnSecrets(ctx context.Context, proposals []visitorpass.DaySecret) ([]visitorpass.DaySecret, error)
}

// KeepSecrets adds a part that sets the secrets of the gate's passes from a store, while some class of the rules is
// proved by passes. Call it before Run.
func (p *Pipeline) KeepSecrets(store SecretStore) {
	p.AddStats(func() any { return p.passStats() })
	p.Add(lifecycle.Sinks, "secrets of passes", func(ctx context.Context) error {
		failing := false
		once := func() {
			err := p.agreeOnSecrets(ctx, store)
			lost := err != nil && ctx.Err() == nil && p.lacksSecret()
			if lost && !failing {
				p.log.Warn("no visitor pass is issued or recognised until a secret is known; trying again", "err", err)
			}
			failing = lost
		}
		once()
		wait.Every(ctx, secretsEvery, once)
		return nil
	})
}

// agreeOnSecrets sets the secrets of the passes from the store. It proposes to the store the secrets that this process
// knows, because the store may have lost them, and new secrets for today and tomorrow.
func (p *Pipeline) agreeOnSecrets(ctx context.Context, store SecretStore) error {
	if !p.Gate.Rules().UsesProofs() {
		return nil
	}
	proposals := p.Passes.NeededSecrets(p.now())
	for i := range proposals {
		if s := &proposals[i].Secret; *s == (visitorpass.Secret{}) && proposals[i].Day >= visitorpass.Day(p.now()) {
			_, _ = rand.Read(s[:]) // it never fails
		}
	}
	agreed, err := store.AgreeOnSecrets(ctx, proposals)
	for _, d := range agreed {
		p.Passes.SetSecret(d.Day, d.Secret)
	}
	return err
}

// lacksSecret reports whether the rules use passes, and no secret of today is known.
func (p *Pipeline) lacksSecret() bool {
	return p.Gate.Rules().UsesProofs() && !p.Passes.HasSecret(visitorpass.Day(p.now()))
}

func (p *Pipeline) passStats() visitorpass.Stats { return visitorpass.Stats{NoSecret: p.lacksSecret()} }
