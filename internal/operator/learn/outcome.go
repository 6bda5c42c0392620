package learn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
	// Hardest lists the clients with the most denied requests, if more than a tenth of all requests would be denied.
	Hardest []DeniedClient
	// DeniedHarder is the number of requests that half the limits of hot keys would have denied.
	DeniedHarder int64
}

// DeniedClient is a client with the number of its requests that would be denied.
type DeniedClient struct {
	Client hottype.Client
	Denied int64
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
	if err == nil && p.perIP.widen(p.visitors, usualDenied*hurt.fixed > o.Usual, usualDenied*hurt.sliding > o.Usual) {
		whole, half, hurt, err = p.wholeAndHalf(ctx, l)
	}
	if err != nil {
		return o, err
	}
	o.UsualByIP = hurt.fixed + hurt.sliding
	if denied := int64(whole.Denied.Total()); 10*denied > whole.Requests {
		o.Hardest = hurt.hardest
	}
	o.Replay, o.Hurt, o.HurtByIP, o.Stopped = whole, hurt.ordinary, hurt.byIP, hurt.stopped
	o.Hot, o.Loops = countKeys(whole.Hot), countKeys(whole.Loops)
	if half != nil {
		o.DeniedHarder = int64(half.Denied.Total())
	}
	return o, nil
}

// usualDenied is the number of requests of clients that are no loops or scanners of which a window should deny one or
// none.
const usualDenied = 1000

// deniedClients counts clients that were denied a request, and the requests that each window denied to clients that are
// no loops or scanners. hardest are the clients with the most denied requests.
type deniedClients struct {
	ordinary, byIP, stopped int64
	fixed, sliding          int64
	hardest                 []DeniedClient
}

// hasLimits reports whether a proposed rule has a limit.
func (p *Proposal) hasLimits() bool {
	return slices.ContainsFunc(p.rules, func(r *proposed) bool { return r.hasViralValues() })
}

// wholeAndHalf replays the log with the limits as proposed and, beside it, with half the limits of hot keys. half is
// nil if no limits are proposed.
func (p *Proposal) wholeAndHalf(ctx context.Context, l *learner) (whole, half *replay.Report, hurt deniedClients,
	err error) {
	group, ctx := errgroup.WithContext(ctx)
	cfg := l.nextPassConfig()
	group.Go(func() (err error) {
		whole, hurt, err = p.replayEnforced(ctx, l, cfg, 1)
		return err
	})
	if p.hasLimits() {
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

func (p *Proposal) parseConfig(m mode, divide int64) (*rules.Set, error) {
	set, err := rules.Parse("proposal", []byte(p.formatConfig(m, divide)))
	if err != nil {
		return nil, fmt.Errorf("learn: the proposal is not a configuration, which is a mistake of this program: %w", err)
	}
	return set, nil
}

func (p *Proposal) replayEnforced(ctx context.Context, l *learner, cfg replay.Config, divide int64) (*replay.Report,
	deniedClients, error) {
	var h deniedClients
	set, err := p.parseConfig(enforce, divide)
	if err != nil {
		return nil, h, err
	}
	sources, err := l.logs()
	if err != nil {
		return nil, h, err
	}
	type denials struct{ all, fixed, sliding int64 }
	deniedOf := map[hottype.Client]*denials{}
	cfg.Rules = set
	cfg.Verdict = func(s *replay.Seen, v *hottype.Verdict) {
		if v.Allowed {
			return
		}
		d := deniedOf[s.Request.Client]
		if d == nil {
			d = &denials{}
			deniedOf[s.Request.Client] = d
		}
		d.all++
		d.fixed += oneIf(v.Reason == hottype.ReasonIPFixed)
		d.sliding += oneIf(v.Reason == hottype.ReasonIPSliding)
	}
	rep, err := replay.Run(ctx, cfg, sources...)
	if err != nil && (p.cut == nil || ctx.Err() != nil) {
		return nil, h, fmt.Errorf("learn: %w", err)
	}
	for c, n := range deniedOf {
		h.hardest = append(h.hardest, DeniedClient{c, n.all})
		k := p.visitors.kindOf(p.visitors.all[c])
		if k == loop || k == scanner {
			h.stopped++
			continue
		}
		h.fixed += n.fixed
		h.sliding += n.sliding
		if isOrdinary(k) {
			h.ordinary++
			h.byIP += oneIf(n.fixed+n.sliding > 0)
		}
	}
	slices.SortFunc(h.hardest, func(a, b DeniedClient) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Client.String(), b.Client.String()))
	})
	h.hardest = h.hardest[:min(len(h.hardest), maxHardest)]
	return rep, h, nil
}

// maxHardest is the number of clients that are named if many requests would be denied.
const maxHardest = 3
