package learn

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// Outcome holds the effect that a proposal would have had on the logs that it was learned from if its limits were
// enforced. In shadow mode it denies no request.
type Outcome struct {
	// Replay is the whole report.
	Replay *replay.Report
	// Hot is the number of different keys that were hot, Loops of keys that looked hot because of one or a few clients.
	Hot, Loops int
	// Ordinary is the number of clients that are people or addresses that many share. Hurt of them were denied a
	// request at least once, and HurtByIP of them by windows of clients.
	Ordinary, Hurt, HurtByIP int64
	// Stopped is the number of loops and scanners that were denied a request.
	Stopped int64
	// Usual is the number of requests by clients that are no loops or scanners. Windows of clients would have denied
	// UsualByIP of them.
	Usual, UsualByIP int64
	// DeniedHarder is the number of requests that half the limits of hot keys would have denied.
	DeniedHarder int64
}

func (p *Proposal) tryOut(ctx context.Context, l *learner) (Outcome, error) {
	var o Outcome
	census := p.visitors.countKinds()
	o.Ordinary = census[person] + census[sharedAddress]
	for client, c := range p.visitors.all {
		if k := p.visitors.kindOf(c); k != loop && k != scanner && !client.IsZero() {
			o.Usual += c.requests
		}
	}
	whole, half, hurt, err := p.wholeAndHalf(ctx, l)
	for err == nil && p.perIP.none == "" && usualDenied*hurt.usual > o.Usual {
		p.perIP.widenWindows(p.visitors)
		whole, half, hurt, err = p.wholeAndHalf(ctx, l)
	}
	if err != nil {
		return o, err
	}
	o.UsualByIP = hurt.usual
	o.Replay, o.Hurt, o.HurtByIP, o.Stopped = whole, hurt.ordinary, hurt.byIP, hurt.stopped
	o.Hot, o.Loops = countKeys(whole.Hot), countKeys(whole.Loops)
	if half != nil {
		o.DeniedHarder = int64(half.Denied.Total())
	}
	return o, nil
}

// usualDenied bounds the requests of clients that are no loops or scanners that windows may deny: one in usualDenied.
const usualDenied = 1000

// deniedClients counts clients that were denied a request, and the requests that windows denied to clients that are no
// loops or scanners.
type deniedClients struct{ ordinary, byIP, stopped, usual int64 }

// wholeAndHalf replays the log with the limits as proposed and, beside it, with half the limits of hot keys. half is
// nil if no rules are proposed.
func (p *Proposal) wholeAndHalf(ctx context.Context, l *learner) (whole, half *replay.Report, hurt deniedClients,
	err error) {
	group, ctx := errgroup.WithContext(ctx)
	cfg := l.nextPassConfig()
	group.Go(func() (err error) {
		whole, hurt, err = p.replayEnforced(ctx, l, cfg, 1)
		return err
	})
	if len(p.rules) > 0 {
		beside := cfg
		beside.Progress = nil
		group.Go(func() (err error) {
			half, _, err = p.replayEnforced(ctx, l, beside, 2)
			return err
		})
	}
	err = group.Wait()
	return whole, half, hurt, err
}

func (p *Proposal) replayEnforced(ctx context.Context, l *learner, cfg replay.Config, divide int64) (*replay.Report,
	deniedClients, error) {
	var h deniedClients
	set, err := rules.Parse("proposal", []byte(p.formatConfig(enforce, divide)))
	if err != nil {
		return nil, h, fmt.Errorf("learn: the proposal is not a configuration, which is a mistake of this program: %w",
			err)
	}
	sources, err := l.logs()
	if err != nil {
		return nil, h, err
	}
	// deniedByIP holds each client that was denied a request, and the number of its requests that windows denied.
	deniedByIP := map[hottype.Client]int64{}
	cfg.Rules = set
	cfg.Verdict = func(s *replay.Seen, v *hottype.Verdict) {
		if v.Allowed {
			return
		}
		deniedByIP[s.Request.Client] += oneIf(v.Reason.Info().OfClient)
	}
	rep, err := replay.Run(ctx, cfg, sources...)
	if err != nil && (p.cut == nil || ctx.Err() != nil) {
		return nil, h, fmt.Errorf("learn: %w", err)
	}
	for c, n := range deniedByIP {
		switch k := p.visitors.kindOf(p.visitors.all[c]); {
		case isOrdinary(k):
			h.ordinary++
			h.byIP += oneIf(n > 0)
			h.usual += n
		case k == loop || k == scanner:
			h.stopped++
		default:
			h.usual += n
		}
	}
	return rep, h, nil
}
