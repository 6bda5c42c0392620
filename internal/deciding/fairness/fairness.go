// Package fairness divides one limit among its clients.
//
// A bucket alone serves the clients with the most requests. With fairness, light clients get what they request, and
// heavy ones share the rest evenly. Requests do not queue and limiters exchange no messages: the level of the bucket
// determines the rate of one client.
//
//	level of the bucket ──> price ──> fair rate of one client ──> credit of each client
//
// A low bucket means that clients take more than flows back, so the fair rate falls. A full bucket means that they
// leave some over, so it rises. At the level where clients take as much as flows back, the fair rate is the max-min
// share. All limiters see the same level, so they arrive at the same rate.
//
// A client has a credit that grows by the fair rate up to a few tokens, and pays each request from it. Credits are kept
// as in virtual scheduling: one virtual time for all, which runs at the fair rate, and for each client the time up to
// which it has paid. A network of addresses (/24, /48) has a credit too and pays an eighth, and so has its parent (/16,
// /32), which pays a quarter of that. A client that rotates its addresses thus counts as eight clients at most, and one
// that rotates its networks as 32.
//
// A client that has no credit yet is a newcomer. Newcomers together count as 32 clients too, or as a quarter of the
// limit, so that a flood of addresses from anywhere takes nothing more from returning clients. Only in the first two
// seconds every client counts as known, because no client can have returned by then.
//
// A key's memory is bounded: 1024 clients and 512 networks in 12 KiB, allocated when the limit first denies. A newcomer
// takes over the credit of a client that has not come back.
//
// Before the first denial, and again when the bucket has been nearly full for a while, no client is limited, and a
// request costs a load of one flag.
//
// Only algorithms that refill evenly have a level, and can be divided.
package fairness

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

const (
	// maxStep bounds the time that one step may advance, against steps of the clock.
	maxStep = time.Second
	// networkWeight and parentWeight are the numbers of clients as which a network and its parent, or all newcomers,
	// count.
	networkWeight, parentWeight = 8, 32
	// newcomersPart is the part of the limit that is for newcomers, however many clients are known.
	newcomersPart = 0.25
	// Tokens of credit: firstCredit of a client when fairness begins, newcomerCredit of a newcomer later, and
	// savedCredit that each may save at least. A client that makes requests at random times at the fair rate has tokens
	// over at one time and lacks them at another, and the tokens that it cannot save go to greedy clients.
	firstCredit, newcomerCredit, savedCredit = 6, 2, 20
	// minCalm and maxCalm bound the time without denials after which fairness ends. Between them it is the time to fill
	// the bucket.
	minCalm = 250 * time.Millisecond
	maxCalm = 2 * time.Second
)

// Divider divides the limit of one key. Any number of goroutines may use it.
type Divider struct {
	rate, burst float64       // of the bucket, in tokens and seconds
	every       time.Duration // between updates of the fair rate
	quietPeriod time.Duration
	seed        maphash.Seed

	active atomic.Bool // written with mu held

	mu      sync.Mutex
	credits *credits  // nil before the first denial
	fair    float64   // tokens a second of one client
	most    float64   // tokens that a client may save
	first   float64   // tokens with which a client begins
	began   time.Time // when fairness began
	at      time.Time // the time of fair
	denied  time.Time // the last denial

	level     float64   // of the bucket at levelAt, in tokens
	levelAt   time.Time // the time after which inflow counts
	inflow    float64   // this process's estimated part of rate, in tokens a second
	newcomers float64   // tokens of all newcomers together
}

// Result is the result of Charge.
type Result struct {
	// Allowed is true if fairness allows the request. Its limit may still deny it.
	Allowed bool
	Payment
	// RetryAfter is the time until the client's credit suffices at the present fair rate, ResetAfter the time until it
	// is full.
	RetryAfter, ResetAfter time.Duration
}

// Payment is the part of a Result that Refund undoes. It is a struct within Result because a result with one more field
// would not be kept in registers.
type Payment struct {
	// Charged is true if the client has paid.
	Charged  bool
	newcomer bool
}

// Divisible reports whether a limit has a level, so that it can be divided.
func Divisible(s limit.Spec) bool {
	return limitcore.Spec(s).Refills() && s.Capacity() > 0 && s.Block == 0
}

// NewDivider returns a divider of a limit for which Divisible is true.
func NewDivider(s limit.Spec) *Divider {
	k := &Divider{rate: float64(s.Limit) / s.Window.Seconds(), burst: float64(s.Capacity()), seed: maphash.MakeSeed()}
	fill := k.burst / k.rate
	k.every = max(time.Millisecond, durationOf(fill/64))
	k.quietPeriod = min(max(minCalm, durationOf(fill)), maxCalm)
	return k
}

// Charge charges a cost of 1 or more to a client's credit, if the credit is enough. If the limit denies the request,
// RecordDenied has to follow; if another limit does, Refund. Otherwise RecordAllowed should follow.
func (k *Divider) Charge(now time.Time, who hottype.Client, cost int64) Result {
	if !k.active.Load() {
		return Result{Allowed: true}
	}
	return k.chargeClient(now, who, cost)
}

// chargeClient charges a client as Charge does, while clients are limited.
func (k *Divider) chargeClient(now time.Time, who hottype.Client, cost int64) Result {
	h := hashesOf(k.seed, who)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.advance(now); !k.active.Load() {
		return Result{Allowed: true}
	}
	p := k.findPayers(h, now)
	// A request that costs more than a client's first credit needs only that credit, and leaves a debt.
	need := min(float64(cost), k.first)
	if short := k.missingTokens(&p, need); short > 0 {
		k.denied = now
		return Result{RetryAfter: durationOf(short / k.fair), ResetAfter: durationOf((short - need + k.most) / k.fair)}
	}
	k.chargePayers(&p, h, float64(cost))
	return Result{Allowed: true, Payment: Payment{Charged: true, newcomer: p.newcomer}}
}

// RecordAllowed records the level of the limit when it allowed a request.
func (k *Divider) RecordAllowed(now time.Time, l Level) {
	if !k.active.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recordLevel(now, l)
}

// RecordDenied records that the limit denied a request, whatever the result of Charge.
func (k *Divider) RecordDenied(now time.Time, l Level, who hottype.Client, cost int64, a Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recordLevel(now, l)
	k.denied = now
	if !k.active.Load() {
		k.beginFairness(now)
	} else if a.Charged {
		k.refundCredit(who, cost, a)
	}
}

// Refund undoes the charge of a request that did not pass, by the result of Charge.
func (k *Divider) Refund(who hottype.Client, cost int64, a Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refundCredit(who, cost, a)
}

// Reset forgets the credits of clients. Fairness begins again at the next denial.
func (k *Divider) Reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active.Store(false)
}

// beginFairness limits clients to fair rates from now on. Every client starts with the same credit. It is called with
// mu held.
func (k *Divider) beginFairness(now time.Time) {
	if k.credits == nil {
		k.credits = new(credits)
	}
	k.credits.clear()
	k.at, k.began, k.newcomers = now, now, k.burst/2
	k.updateRates(k.estimatedLevel(now) / k.burst)
	k.active.Store(true)
}

// advance advances virtual time, and ends fairness after a while without denials if the bucket is nearly full. It is
// called with mu held.
func (k *Divider) advance(now time.Time) {
	step := now.Sub(k.at)
	if step < -maxStep { // the clock was set back: begin from here
		k.at, k.denied = now, now
	}
	if step < k.every {
		return
	}
	level := k.estimatedLevel(now)
	if level >= k.burst-max(1, 0.03*k.burst) && now.Sub(k.denied) >= k.quietPeriod {
		k.active.Store(false)
		return
	}
	dt := min(step, maxStep).Seconds()
	k.at = now
	k.updateRates(level / k.burst)
	k.newcomers = min(k.burst/2, k.newcomers+k.newcomersRate()*dt)
	k.credits.advance(k.fair*dt, k.most)
}

// updateRates computes the fair rate, and the tokens that a client may save, at a level of 0 to 1. It is called with mu
// held.
func (k *Divider) updateRates(level float64) {
	k.fair = k.rate * fairRatio(level)
	half, share := min(k.burst/2, maxCredit), k.fair*k.burst/(2*k.rate)
	k.first = max(2, min(half, max(firstCredit, share)))
	k.most = max(2, min(half, max(savedCredit, share)))
	k.credits.first = k.first
}

// fairRatio returns the fair rate as a part of the bucket's rate. It is steep, so that the level hardly depends on the
// number of clients: one client alone gets the whole rate at nine tenths of the bucket, a thousand share it at a tenth.
func fairRatio(level float64) float64 {
	if level < 0.9 {
		return math.Exp(-8 * (1 - level/0.9))
	}
	return 1 + 30*(level-0.9)
}

func durationOf(s float64) time.Duration { return time.Duration(min(s, 3600) * float64(time.Second)) }

// Level is the level of a limit's bucket, from a result of the limit.
type Level struct {
	// Left is the filled part of the bucket's capacity: 0 for empty, 1 for full.
	Left float64
	// Limiters is the number of processes that share the bucket, at least 1.
	Limiters int64
}

// LevelOf computes the level from the result of a charge of a spec. It uses the time to full, which is more exact than
// the remaining tokens, because these are rounded down.
func LevelOf(s *limit.Spec, r *limit.Result, limiters int64) Level {
	fill := float64(r.Limit) / float64(s.Limit) * float64(s.Window)
	return Level{Left: 1 - float64(r.ResetAfter)/fill, Limiters: limiters}
}

// recordLevel records the level of the bucket at time now. It is called with mu held.
func (k *Divider) recordLevel(now time.Time, l Level) {
	k.level, k.levelAt = max(0, min(l.Left, 1))*k.burst, now
	k.inflow = k.rate / float64(max(l.Limiters, 1))
}

// estimatedLevel returns the level of the bucket at now: the last recorded one, and the tokens that have flowed in for
// this process since. It is called with mu held.
func (k *Divider) estimatedLevel(now time.Time) float64 {
	return min(k.burst, k.level+k.inflow*max(0, now.Sub(k.levelAt).Seconds()))
}
