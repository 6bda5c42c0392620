package learn

import (
	"context"
	"fmt"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// Outcome is what a proposal would have done to the logs that it was learned from
// if its limits were enforced. In shadow mode it denies nothing.
type Outcome struct {
	// Replay is the whole report.
	Replay *replay.Report
	// Hot and Loops are how many different keys were hot, and looked so because of
	// one or a few clients.
	Hot, Loops int
	// Ordinary is how many clients are people or addresses that many share. Hurt of
	// them were denied a request at least once, HurtByIP of them by windows of
	// clients. HurtHarder is Hurt at half the limits.
	Ordinary, Hurt, HurtByIP, HurtHarder int64
	// Stopped is how many loops and scanners were denied a request.
	Stopped int64
	// DeniedHarder is how many requests half the limits would have denied.
	DeniedHarder int64
}

// tryOut replays the logs with the proposal enforced, and with half its limits.
func (p *Proposal) tryOut(ctx context.Context, l *learner) (Outcome, error) {
	var o Outcome
	census := p.visitors.census()
	o.Ordinary = census[person] + census[sharedAddress]
	whole, hurt, err := p.enforced(ctx, l, 1)
	if err != nil {
		return o, err
	}
	o.Replay, o.Hurt, o.HurtByIP, o.Stopped = whole, hurt.ordinary, hurt.byIP, hurt.stopped
	o.Hot, o.Loops = differentKeys(whole.Hot), differentKeys(whole.Loops)
	if len(p.rules) == 0 {
		return o, nil
	}
	half, hurt, err := p.enforced(ctx, l, 2)
	if err != nil {
		return o, err
	}
	o.HurtHarder, o.DeniedHarder = hurt.ordinary, int64(half.Denied.Total())
	return o, nil
}

// deniedClients counts the clients that were denied a request, by kind.
type deniedClients struct{ ordinary, byIP, stopped int64 }

// enforced replays the logs with the limits of the proposal, divided and enforced.
func (p *Proposal) enforced(ctx context.Context, l *learner, divide int64) (*replay.Report, deniedClients, error) {
	var h deniedClients
	set, err := rules.Parse("proposal", []byte(p.text(enforce, divide)))
	if err != nil {
		return nil, h, fmt.Errorf("learn: the proposal is no configuration, which is a mistake of this program: %w",
			err)
	}
	sources, err := l.logs()
	if err != nil {
		return nil, h, err
	}
	type denied struct{ any, byIP bool }
	clients := map[hottype.Client]denied{}
	cfg := l.replayConfig()
	cfg.Rules = set
	cfg.Verdict = func(s *replay.Seen, v *hottype.Verdict) {
		if v.Allowed {
			return
		}
		d := clients[s.Request.Client]
		d.any = true
		d.byIP = d.byIP || v.Reason.Info().OfClient
		clients[s.Request.Client] = d
	}
	rep, err := replay.Run(ctx, cfg, sources...)
	if err != nil {
		return nil, h, fmt.Errorf("learn: %w", err)
	}
	for c, d := range clients {
		switch k := p.visitors.kindOf(p.visitors.all[c]); {
		case isOrdinary(k):
			h.ordinary++
			h.byIP += one(d.byIP)
		case k == loop || k == scanner:
			h.stopped++
		}
	}
	return rep, h, nil
}

func differentKeys(spans []replay.Span) int {
	keys := map[hottype.Key]bool{}
	for _, s := range spans {
		keys[s.Key] = true
	}
	return len(keys)
}
