package rule

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// Scope selects the processes that share a limit.
type Scope string

// The scopes of a limit.
const (
	ScopeInstance Scope = "instance" // each process has its own
	ScopeCluster  Scope = "cluster"  // one for all, kept in Redis
)

// FailurePolicy selects the treatment of requests while the shared store does not answer.
type FailurePolicy string

// The failure policies.
const (
	FailLocal  FailurePolicy = "local" // in-process limit / live limiters
	FailOpen   FailurePolicy = "open"
	FailClosed FailurePolicy = "closed"
)

// Algorithms that exist only in rules, not in package limit.
const (
	// Bursty is Guava's RateLimiter.create(rate), its SmoothBursty. For calls that cost 1 it is a token bucket.
	Bursty limit.Algorithm = "bursty"
	// AlgorithmInFlight bounds the requests in flight, not their rate.
	AlgorithmInFlight limit.Algorithm = "in_flight"
)

// Amounts are the numbers of a limit. The algorithm determines which of them apply.
type Amounts struct {
	// Token bucket, bursty: the rate at which tokens return; gcra, leaky bucket, warming up: the rate at which requests
	// are due. Per second, or `30/m`, `24/h`, `7/d`, `10/3s`; in a rule with `cost` also `500ms` or `5MB`. Required
	// there.
	Rate Rate `name:"rate"`
	// Token bucket: tokens in a full bucket, the number of requests that may come at once, at least 1. Gcra, leaky
	// bucket: requests that may come before they are due; one more may come at once. Bursty: unused tokens that are
	// stored; 0 at first. In a rule with `cost` a time, a size or a number (in Go microseconds, bytes or a number).
	// Default: `rate` in a second, at least 1; gcra, leaky bucket: `0`.
	Burst *int64 `name:"burst" as:"amount" in:"0..9007199254740991"`
	// Windows: requests per window; in_flight: requests of a key in flight, up to 100,000. At least 1. Required there.
	Limit int64 `name:"limit" in:"1..9007199254740991"`
	// Windows: length, `1ms` to `24h`, whole milliseconds. Required there.
	Window time.Duration `name:"window" in:"1ms..24h" step:"1ms"`
	// Bucketed window: number of parts, up to 1000; each a whole number of microseconds. Default: `10`.
	Buckets int64 `name:"buckets" in:"1..1000"`
	// Token bucket: tokens of a key that was not seen for a day, at most `burst`. `0`: a new key earns its burst.
	// Default: `burst`.
	InitialTokens *int64 `name:"initial_tokens" in:"0..9007199254740991"`
	// Leaky bucket: requests of the burst that proceed at once (nginx's `delay`), at most `burst`; the others wait.
	// Default: all wait.
	Delay *int64 `name:"delay" in:"0..9007199254740991"`
	// Leaky bucket: `true`: the whole burst proceeds at once (nginx's `nodelay`); not with `delay`.
	NoDelay bool `name:"nodelay"`
	// Warming up: time in which steady requests rise from a third of the rate to the rate after an equally long idle
	// time; `1ms` to `24h`, whole milliseconds. Required there.
	WarmUp time.Duration `name:"warm_up" in:"1ms..24h" step:"1ms"`
}

// Limit limits a hot key.
type Limit struct {
	// `token_bucket`, `gcra`, `leaky_bucket`, `bursty`, `warming_up`, `fixed_window`, `anchored_window`,
	// `sliding_window`, `sliding_log`, `bucketed_window` or `in_flight`.
	Algorithm limit.Algorithm `name:"algorithm" words:"algorithm" default:"token_bucket"`
	Amounts   `name:",inline"`
	// Algorithm `in_flight` (with `limit`, `scope` and `on_store_failure` only): time for which an unrenewed slot is
	// held, `1s` to `1h`.
	Lease time.Duration `name:"lease" in:"1s..1h" step:"1ms" default:"30s"`
	// `enforce`, or `shadow`: the limit is evaluated and counted, and everything is allowed.
	Mode hottype.Mode `name:"mode" words:"enforce,shadow" default:"enforce"`
	// With `cost`: bound of a key's requests in flight, whose costs are not known yet: `limit`, `lease`, `scope`,
	// `on_store_failure`, as for `algorithm: in_flight`. Default: by time, the seconds of `rate` rounded up and one more;
	// else as many as `burst` holds at the mean cost of the key.
	InFlight *InFlight `name:"in_flight"`
	// `cluster`: one limit for all limiters, in Redis. `instance`: one for each limiter.
	Scope Scope `name:"scope" words:"instance,cluster" default:"cluster"`
	// The policy while Redis does not answer in time: `local` (a limit in memory, divided among the live limiters),
	// `open` (allow) or `closed` (deny); docs/limits.md#scope-and-redis-failures.
	OnStoreFailure FailurePolicy `name:"on_store_failure" words:"local,open,closed" default:"local"`
	// Token bucket, gcra, leaky bucket, bursty, warming up: a denied request waits instead if it can be allowed within
	// this time; otherwise it is denied at once. Up to `1m`, whole milliseconds.
	Wait time.Duration `name:"wait" in:"0s..1m" step:"1ms"`
	// Time for which a denied subject is denied everything, up to `24h`; docs/limits.md#block.
	Block time.Duration `name:"block" in:"0s..24h" step:"1ms"`
	// Repeated blocks double up to this length. Default: `block`.
	BlockMax time.Duration `name:"block_max" in:"0s..24h" step:"1ms"`
	// Token bucket, gcra, leaky bucket, bursty: `true`: while the limit denies, clients share it evenly;
	// docs/limits.md#fairness. Not with `adaptive` and `block`; not evaluated in mode `shadow`.
	Fair bool `name:"fair"`
	// Token bucket, gcra: names of `classes`, the most important first: a class leaves a part of the burst to the classes
	// before it, and all leave half of it that requests of other classes do not get; docs/crawlers.md. Not with `wait`,
	// `block` or `fair`; `burst` is at least four times the number of classes, by default with `adaptive` a fifth of
	// the current rate, or from three classes on a tenth for each.
	Priority []string `name:"priority" form:"plain"`
	// Response statuses that refund the request's charge, such as `[304, 5xx]`; docs/limits.md#refund-by-status.
	RefundStatus hottype.Statuses `name:"refund_status"`
	// With `fair`: the header that identifies a client, `header.NAME`. Only a header that is set in front of the
	// limiter, such as a user from a verified token. A request without the header counts for its address. Default: the
	// address, and its /24 or /48.
	ClientKey string `name:"client_key"`
	// Token bucket: `true`: the rate follows the upstream between `min` and `max`; docs/adaptive.md. `rate` (default
	// `max`) applies without measurements; `burst` defaults to a tenth of the current rate. Not with `scope:
	// instance`.
	Adaptive bool `name:"adaptive"`
	// With `adaptive`: the minimum rate of each hot key, from `0.1`. Required there.
	Min Rate `name:"min"`
	// With `adaptive`: the maximum rate of each hot key. Required there.
	Max Rate `name:"max"`
	// With `adaptive`: the name of the upstream, one of `upstreams`.
	Upstream string `name:"upstream" form:"plain" default:"default"`
	// Amounts for particular keys of the rule: a list of `key` and `rate`, `burst`, `initial_tokens`, `delay`,
	// `nodelay`, `warm_up` or `limit`, `window`, `buckets`.
	Values []Value `name:"values"`
}

// LimitOf returns a Spec as the limit of a rule, without its Reserve: the Priority of a rule sets reserves.
func LimitOf(s limit.Spec) *Limit {
	l := &Limit{Algorithm: s.Algorithm, Wait: s.Wait, Block: s.Block, BlockMax: s.BlockMax}
	switch traits := limitcore.Spec(s); {
	case !traits.Even():
		l.Amounts = Amounts{Limit: s.Limit, Window: s.Window, Buckets: s.Buckets}
	case !traits.Refills():
		l.Amounts = Amounts{Rate: Rate{s.Limit, s.Window}, WarmUp: s.WarmUp}
	default:
		l.Amounts = Amounts{Rate: Rate{s.Limit, s.Window}, Burst: &s.Burst}
		if s.InitialDeficit != 0 {
			l.InitialTokens = new(s.Burst - s.InitialDeficit)
		}
	}
	return l
}

// Value has amounts of its own for one key. Everything else is the rule's, including an unset window.
type Value struct {
	// The key in canonical form.
	Key     string `name:"key" required:"true"`
	Amounts `name:",inline"`
}

// InFlight bounds the number of requests in flight.
type InFlight struct {
	// Maximum number of requests in flight.
	Limit int64 `name:"limit" in:"1..100000" required:"true"`
	// Time for which a slot is held without renewal, after a crash of its holder.
	Lease time.Duration `name:"lease" in:"1s..1h" step:"1ms" default:"30s"`
	// As in `limit`.
	Scope Scope `name:"scope" words:"instance,cluster" default:"cluster"`
	// As in `limit`.
	OnStoreFailure FailurePolicy `name:"on_store_failure" words:"local,open,closed" default:"local"`
}

// Upstream is a service whose capacity adaptive limits follow.
type Upstream struct {
	// A name; `default` is the upstream of limits and classes that name no upstream.
	Name string `name:"name" required:"true" form:"plain"`
	// URL for the proxy; read at start. A different URL for it in `proxy.upstream` or `proxy.upstreams` is an error.
	// Default: `proxy.upstream` for `default`, `proxy.upstreams` for others.
	URL string `name:"url"`
	// The number of requests on which the upstream works at once, for rules with `cost: time`. More requests wait for
	// it, and waiting costs nothing. All limiters together. Default: unknown, so that waiting counts as work.
	Workers int `name:"workers" in:"1..100000"`
	// `auto`, or `latency` (`auto`, `1ms` to `1m`), `quantile` (0.5 to 0.99) and `errors` (0.001 to 0.5): this part of
	// all responses begins within the latency, and no larger part fails. Default: `auto`, `0.9`, `0.01`.
	Target Target `name:"target"`
}

// Target is the latency and the share of errors that an upstream must keep to.
type Target struct {
	// The maximum latency of the part `quantile` of all responses; `auto`: it is learnt while nothing is limited.
	Latency time.Duration `name:"latency" in:"1ms..1m" step:"1us" also:"auto"`
	// The part of all responses that must begin within the latency.
	Quantile float64 `name:"quantile" in:"0..1" within:"0.5..0.99" default:"0.9"`
	// The maximum share of requests that fail.
	Errors float64 `name:"errors" in:"0..1" within:"0.001..0.5" default:"0.01"`
}

// Rate is a whole number of requests per time, such as 100 per second or 30 per minute, or of seconds, bytes or numbers
// in a rule with a cost: 1 per 2 seconds is half a second of time a second. The zero Rate is unset.
type Rate struct {
	N   int64
	Per time.Duration
}

// PerSecond returns the rate of n requests per second.
func PerSecond(n int64) Rate { return Rate{n, time.Second} }

// MaxRate is the maximum rate, in requests per second. No machine reaches it.
const MaxRate = 1e9

// PerSecond returns the rate in requests per second, or 0 for the zero Rate.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return float64(r.N) / r.Per.Seconds()
}

var decimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,6})?$`)

// rateUnits are the units of time of rates.
var rateUnits = map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour}

// ParseRate reads a number of requests per second, or a number with a unit of time: "100", "0.5", "30/m", "7/d",
// "10/3s".
func ParseRate(text string) (Rate, error) {
	number, unit, given := strings.Cut(text, "/")
	if d, err := time.ParseDuration(unit); err == nil {
		n, err := strconv.ParseInt(number, 10, 64)
		if r := (Rate{n, d}); err == nil && r.isValid() {
			return r, nil
		}
		return Rate{}, badRate(text)
	}
	per, ok := rateUnits[unit]
	if !ok || given && unit == "" || !decimal.MatchString(number) {
		return Rate{}, fmt.Errorf("%q is not a rate; write requests per second (100, 0.5), or 30/m, 24/h, 7/d, 10/3s",
			text)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return Rate{}, err
	}
	if r, ok := ExactRate(f); ok && r.PerSecond() <= MaxRate {
		return Rate{r.N, r.Per / time.Second * per}, nil
	}
	return Rate{}, fmt.Errorf("rate %s is not between 0.000001 and %.0f", text, MaxRate)
}

// Validate returns an error for a rate that a file cannot express.
func (r Rate) Validate() error {
	if r.isValid() {
		return nil
	}
	return badRate(fmt.Sprintf("%d/%v", r.N, r.Per))
}

func (r Rate) isValid() bool {
	return r.N >= 1 && r.Per >= time.Millisecond && r.Per <= 24*time.Hour && r.Per%time.Millisecond == 0 &&
		r.PerSecond() <= MaxRate
}

func badRate(text string) error {
	return fmt.Errorf("%q is not a rate; write a whole number per 1ms to 24h, at most %.0f a second", text, MaxRate)
}

// ExactRate returns the whole number per whole seconds that a rate per second stands for: 100 per 1 s, 1 per 2 s for
// 0.5, 1 per 3 s for a third, which is "20/m" as a float. It returns false if there is no such number.
func ExactRate(perSecond float64) (Rate, bool) {
	for _, seconds := range []int64{1, 10, 100, 1000, 1e4, 1e5, 1e6, 60, 3600, 86400} {
		x := perSecond * float64(seconds)
		n := math.Round(x)
		if n < 1 || n > 1<<53 || math.Abs(x-n) > 1e-9*n {
			continue
		}
		g := limitcore.GCD(int64(n), seconds)
		return Rate{int64(n) / g, time.Duration(seconds/g) * time.Second}, true
	}
	return Rate{}, false
}
