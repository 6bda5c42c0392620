package program

import (
	"maps"
	"slices"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// newGuard returns the guard of a listener that authenticates gateways by its token, and reports whether the listener
// has a token. If use is not nil, it is called with the tokens now and when their file changes.
func (g *Gateways) newGuard(name string, cfg config.HTTPToken, use func([]string)) (*auth.Guard, bool, error) {
	tokens, err := auth.ReadTokens(name+".token", cfg.Token, cfg.TokenFile)
	if err != nil {
		return nil, false, Rejected(err)
	}
	guard := auth.NewGatewayGuard(name, "", g.log)
	replace := func(tokens []string) bool {
		if use != nil {
			use(tokens)
		}
		return guard.ReplaceShared(tokens)
	}
	g.guards[name] = guard
	if len(tokens) > 0 {
		replace(tokens)
	}
	g.listeners.secrets.addTokens(name+".token", cfg.TokenFile, replace)
	return guard, len(tokens) > 0, nil
}

// refusedCounts returns the number of addresses from which each listener refused gateways within the last minute.
func (g *Gateways) refusedCounts(now time.Time) map[string]int {
	refused := make(map[string]int, len(g.guards))
	for name, guard := range g.guards {
		refused[name] = guard.Refused(now)
	}
	return refused
}

// FillReport adds the refused gateways and the failing upstreams to the report of this limiter.
func (g *Gateways) FillReport(r *report.Limiter) {
	if g.failing != nil {
		r.FailingUpstreams = g.failing()
	}
	refused := g.refusedCounts(time.Now())
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if n := refused[name]; n > 0 {
			r.RefusedGateways = append(r.RefusedGateways, report.NameCount{Name: name, N: uint64(n)})
		}
	}
}
