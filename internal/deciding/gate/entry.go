package gate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// maxRetryJitter bounds Config.RetryJitter, because a client that has to wait an hour longer than necessary is lost.
const maxRetryJitter = time.Hour

// CheckRetryJitter returns an error if Config.RetryJitter is out of its bounds.
func CheckRetryJitter(d time.Duration) error {
	if d < 0 || d > maxRetryJitter {
		return fmt.Errorf("gate: retry_jitter %v must be 0s to %v", d, maxRetryJitter)
	}
	return nil
}

// Decide counts the request under its keys and decides. If ctx has ended, the shared store is not called, and the
// failure policies decide. A call that has begun is bounded by Config.Budget and not by ctx.
func (g *Gate) Decide(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict {
	v := g.Begin(ctx, now, req, false)
	return v.Verdict
}

// Begin decides like Decide, for a caller that reports to an upstream's limits. If releases is true, the caller also
// releases the lease of the verdict and reports the status of the response; only then do limits of requests in flight
// apply.
func (g *Gate) Begin(ctx context.Context, now time.Time, req *hottype.Request, releases bool) (v verdict.Verdict) {
	defer g.recoverVerdict(&v)
	d := g.beginDecision(now, req)
	d.releases = releases
	g.countRequest(d)
	g.decide(ctx, d, &v)
	g.endDecision(d, &v)
	return v
}

const (
	// gatewayWait is the longest wait of a request about which a gateway asks: half of the time for which the files of
	// deploy/ wait for an answer.
	gatewayWait = 50 * time.Millisecond
	// answerTime is the part of a context's time that is kept for sending the answer.
	answerTime = 10 * time.Millisecond
)

// DecideForGateway decides like Decide, for a gateway, which lets a request pass if it has no answer in time. A request
// that would have to wait longer is denied. The deadline of ctx takes the place of gatewayWait.
func (g *Gate) DecideForGateway(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict {
	v := g.decideInTime(ctx, now, req, gatewayCall{})
	return v.Verdict
}

// BeginForGateway decides like DecideForGateway, for a gateway that releases the lease of the verdict and makes its
// reports, as the callers of Begin do.
func (g *Gate) BeginForGateway(ctx context.Context, now time.Time, req *hottype.Request) verdict.Verdict {
	return g.decideInTime(ctx, now, req, gatewayCall{releases: true})
}

// DecideKeysForGateway decides like DecideForGateway, for a request that is a part of another request, which has
// charged the limits of their client: only limits of keys are charged. Blocks and exemptions of the client hold, and
// the request is counted.
func (g *Gate) DecideKeysForGateway(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict {
	v := g.decideInTime(ctx, now, req, gatewayCall{clientCharged: true})
	return v.Verdict
}

// gatewayCall describes the question of a gateway.
type gatewayCall struct {
	clientCharged bool // another question charges the client
	releases      bool // the gateway reports that the request has ended
}

// decideInTime decides, and denies a request that would have to wait longer than its gateway waits.
func (g *Gate) decideInTime(ctx context.Context, now time.Time, req *hottype.Request,
	call gatewayCall) (v verdict.Verdict) {
	defer g.recoverVerdict(&v)
	d := g.beginDecision(now, req)
	d.clientCharged, d.releases = call.clientCharged, call.releases
	g.countRequest(d)
	g.decide(ctx, d, &v)
	if v.Wait > 0 && v.Wait > longestWait(ctx) {
		v.Allowed, v.RetryAfter, v.Wait = false, v.Wait, 0
		g.dropDuties(&v)
	}
	g.endDecision(d, &v)
	return v
}

// dropDuties takes the duties of the caller from a request that does not pass after all. Its cost is not measured, and
// so the mean.
func (g *Gate) dropDuties(v *verdict.Verdict) {
	if v.Lease != nil {
		g.Release(time.Now(), v.Lease)
	}
	if w := v.Reports.Work(); w != nil {
		w.End(time.Now(), -1, false)
	}
	v.Lease, v.Reports = nil, nil
}

// longestWait returns the longest wait of a request whose gateway waits until the deadline of ctx.
func longestWait(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end) - answerTime
	}
	return gatewayWait
}

// DecideForCache decides like Begin, for a caller that has a response cache. Its answers cost the upstream nothing, so
// if Verdict.Cache is set, only the limits of the client are charged, and the verdict is not counted yet. The caller
// calls ChargeKeys before it calls the upstream, and count, once, with the last verdict of the request. The client's
// charges stay if the keys deny. count is nil if Verdict.Cache is nil.
func (g *Gate) DecideForCache(ctx context.Context, now time.Time, req *hottype.Request) (v verdict.Verdict,
	count func(last *verdict.Verdict)) {
	defer g.recoverVerdict(&v)
	d := g.beginDecision(now, req)
	d.mayCache, d.releases = true, true
	g.countRequest(d)
	g.decide(ctx, d, &v)
	if v.Cache != nil {
		count = d.deferCount(&v)
	}
	g.endDecision(d, &v)
	return v, count
}

// ChargeKeys decides by the limits of its keys alone whether a request that DecideForCache left to a response cache may
// go to the upstream. It counts neither the request nor the verdict.
func (g *Gate) ChargeKeys(ctx context.Context, now time.Time, req *hottype.Request) (v verdict.Verdict) {
	defer g.recoverVerdict(&v)
	d := g.beginDecision(now, req)
	d.keysOnly, d.releases = true, true
	g.decide(ctx, d, &v)
	g.endDecision(d, &v)
	return v
}

// Count counts the request under its keys without deciding.
func (g *Gate) Count(now time.Time, req *hottype.Request) {
	d := g.beginDecision(now, req)
	g.countRequest(d)
	if d.st.hasCosts {
		g.countMeans(d)
	}
	g.releaseDecision(d)
}

// beginDecision takes a decision from the pool and matches the request. A panic before releaseDecision leaves the
// decision to the garbage collector, which is fine.
func (g *Gate) beginDecision(now time.Time, req *hottype.Request) *decision {
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.req, d.cost = g.cur.Load(), now, req, max(req.Cost, 1)
	d.client = d.st.set.IP.ClientOf(req.Client)
	d.longPath = d.st.set.HasLongPath(req)
	d.matches = d.st.memo.Match(req, &d.scratch)
	return d
}

func (g *Gate) releaseDecision(d *decision) {
	d.reset()
	g.decisions.Put(d)
}

func (g *Gate) countRequest(d *decision) {
	second := d.now.Unix()
	for i := range d.matches {
		m := &d.matches[i]
		if d.req.ParamsUnknown && m.Rule.ReadsQuery() {
			continue
		}
		d.st.uses.Record(m.Rule.Index, second, m.Key, d.req.Target)
		if g.cfg.Counter != nil && m.Rule.Cost == "" { // measureCosts counts the others
			g.cfg.Counter.AddFrom(m.Key, second, 1, d.client)
		}
	}
}

// endDecision prolongs the RetryAfter of a denial by a random part of Config.RetryJitter, so that clients that are
// denied together do not retry together, reports the denial, and releases the decision. This jitter is for all clients;
// the page for people adds one of its own (reloadJitter in package httplimit).
func (g *Gate) endDecision(d *decision, v *verdict.Verdict) {
	if !v.Allowed && g.cfg.RetryJitter > 0 {
		v.RetryAfter = withJitter(v.RetryAfter, g.cfg.RetryJitter, rand.Float64())
	}
	if g.cfg.OnDenial != nil {
		d.reportDenial(v) // denial.go
	}
	g.releaseDecision(d)
}

// recoverVerdict turns a panic into a verdict that lets the request pass.
func (g *Gate) recoverVerdict(v *verdict.Verdict) {
	if p := recover(); p != nil {
		*v = g.Panicked(p)
	}
}

// Panicked counts and logs a panic of a function that decides, and returns the verdict that lets the request pass,
// because limiting must not break the service that it protects. The methods that decide recover from their own panics.
// Callers recover from panics of functions that describe a request to the gate.
func (g *Gate) Panicked(p any) verdict.Verdict {
	g.cfg.Log.Error("gate: deciding panicked, the request passes", "panic", p, "count", g.stats.panics.Add(1),
		"stack", string(debug.Stack()))
	return verdict.Verdict{Verdict: hottype.Verdict{
		Allowed: true, Reason: hottype.ReasonStore, Mode: hottype.ModeEnforce,
	}}
}

// withJitter returns a wait, prolonged by a random part of jitter. random is at least 0 and below 1.
func withJitter(wait, jitter time.Duration, random float64) time.Duration {
	if wait == hottype.Never || jitter <= 0 {
		return wait
	}
	return wait + time.Duration(random*float64(jitter))
}
