package rules

import (
	"cmp"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// maxAmount is the largest whole number that every store keeps exactly.
const maxAmount = 1<<53 - 1

// defaultBuckets is into how many parts a bucketed window is cut: what is over
// counts for up to a tenth of the window longer.
const defaultBuckets = 10

// amounts are the fields that say how much a limit lets pass. Which of them a
// limit has depends on its algorithm.
type amounts struct {
	denial
	rate         rate
	burst, limit int64
	buckets      int64
	initial      int64
	delay        int64 // -1: not given
	nodelay      bool
	window       time.Duration
	warmUp       time.Duration
	written      value // the burst as it stands in the file, if it does
}

func (a *amounts) fields() fields {
	return fields{
		"rate":           func(v value) { a.rate = v.rate() },
		"burst":          func(v value) { a.burst, a.written = v.integer(0, maxAmount), v },
		"initial_tokens": func(v value) { a.initial = v.integer(0, maxAmount) },
		"delay":          func(v value) { a.delay = v.integer(0, maxAmount) },
		"nodelay":        func(v value) { a.nodelay = v.boolean() },
		"limit":          func(v value) { a.limit = v.integer(1, maxAmount) },
		"buckets":        func(v value) { a.buckets = v.integer(1, 1000) },
		"window":         func(v value) { a.window = v.duration(time.Millisecond, 24*time.Hour, time.Millisecond) },
		"warm_up":        func(v value) { a.warmUp = v.duration(time.Millisecond, 24*time.Hour, time.Millisecond) },
	}
}

// amountNames are all fields of amounts, in the order of errors.
var amountNames = []string{"rate", "burst", "limit", "window", "buckets", "initial_tokens", "delay", "nodelay",
	"warm_up"}

// algorithms are those that a limit may name, first of all the one it has when it
// names none.
var algorithms = slices.Insert(slices.Clone(limitcore.Algorithms()), 3, // behind the other buckets
	limitcore.Traits{Name: bursty, Required: []string{"rate"}, Optional: []string{"burst"}})

// algorithm reads the name of an algorithm. Its errors also list further ones, which something else reads.
func (v value) algorithm(further ...string) limit.Algorithm {
	var names []string
	for _, a := range algorithms {
		names = append(names, string(a.Name))
	}
	return limit.Algorithm(v.word(append(names, further...)...))
}

// check complains about amounts that the algorithm does not have, and about
// those that are missing. Window and warm-up may also come from the rule.
func (a *amounts) check(v value, got map[string]value, algorithm limit.Algorithm) {
	for _, known := range algorithms {
		if known.Name != algorithm {
			continue
		}
		has := slices.Concat(known.Required, known.Optional)
		for _, f := range amountNames {
			if w, ok := got[f]; ok && !slices.Contains(has, f) {
				last := len(has) - 1
				w.fail("%s has %s and %s, not %s", algorithm, strings.Join(has[:last], ", "), has[last], f)
			}
		}
		for _, f := range known.Required {
			if fromRule := f == "window" && a.window > 0 || f == "warm_up" && a.warmUp > 0; !fromRule {
				v.require(got, f)
			}
		}
	}
}

// spec makes a limit of what a mapping has got.
func (a *amounts) spec(v value, got map[string]value, algorithm limit.Algorithm) limit.Spec {
	s := limit.Spec{Algorithm: algorithm, Limit: a.rate.n, Window: a.rate.window, Burst: a.burst}
	if a.rate.n == 0 {
		s.Limit, s.Window = a.limit, a.window
	}
	a.check(v, got, algorithm)
	if _, ok := got["burst"]; ok && algorithm == limit.TokenBucket && a.burst == 0 && !v.failed() {
		a.written.integer(1, maxAmount) // 0 would let nothing pass
	}
	if v.failed() {
		return s
	}
	if algorithm == limit.TokenBucket && s.Burst == 0 {
		s.Burst = a.rate.burst()
	}
	if algorithm == limit.BucketedWindow {
		s.Buckets = cmp.Or(a.buckets, defaultBuckets)
	}
	if algorithm == limit.WarmingUp {
		s.WarmUp = a.warmUp
	}
	if w, ok := got["initial_tokens"]; ok {
		if a.initial > s.Burst {
			w.fail("initial_tokens %d is more than the burst, %d", a.initial, s.Burst)
			return s
		}
		s.InitialDeficit = s.Burst - a.initial
	}
	switch algorithm {
	case limit.LeakyBucket:
		a.queue(&s, v)
	case bursty:
		a.store(&s, got)
	}
	s.Wait, s.Block, s.BlockMax = max(s.Wait, a.wait), a.block, a.blockMax
	if err := s.Validate(); err != nil {
		v.failBy(err)
	}
	return s
}

// limit reads the limit of a rule and of particular keys of it.
func (v value) limit() (Limit, []ValueLimit) {
	l := noLimit()
	if v.isInFlight() {
		l.InFlight = v.inFlight("algorithm")
		return l, nil
	}
	l.Set = !v.isNull()
	a := amounts{delay: -1}
	var values []value
	algorithm := algorithms[0].Name
	fs := a.fields()
	fs["algorithm"] = func(v value) { algorithm = v.algorithm(inFlight) }
	fs["mode"] = func(v value) { l.Mode = hottype.Mode(v.word("enforce", "shadow")) }
	fs["scope"] = func(v value) { l.Scope = v.scope() }
	fs["on_store_failure"] = func(v value) { l.OnStoreFailure = v.failurePolicy() }
	fs["fair"] = func(v value) { l.Fair = v.boolean() }
	fs["client_key"] = func(v value) { l.ClientHeader = v.clientKey() }
	fs["refund_status"] = func(v value) { l.RefundStatus = v.refundStatus() }
	fs["candidate"] = func(v value) { l.Candidate = v.candidate() }
	var ad adaptive
	ad.fields(fs)
	a.denial.fields(fs)
	fs["values"] = func(v value) { v.list(func(v value) { values = append(values, v) }) }
	got := v.mapping(fs)
	if !l.Set || algorithm == "" {
		return l, nil
	}
	l.Adaptive = ad.limit(v, got, &a, algorithm, l.Scope)
	l.Spec = a.spec(v, got, algorithm)
	l.checkFair(got)
	l.checkRefund(got)
	var list []ValueLimit
	for _, e := range values {
		list = append(list, e.valueLimit(l, &a, algorithm))
	}
	return l, list
}

// valueLimit reads the limit of one key. All but the amounts is the rule's, and
// the window too unless it is given.
func (v value) valueLimit(l Limit, of *amounts, algorithm limit.Algorithm) ValueLimit {
	a := amounts{denial: of.denial, window: l.Spec.Window, buckets: l.Spec.Buckets, delay: of.delay,
		nodelay: of.nodelay, warmUp: of.warmUp}
	var key string
	fs := a.fields()
	fs["key"] = func(v value) { key = v.text() }
	got := v.mapping(fs)
	v.require(got, "key")
	l.Spec, l.Adaptive = a.spec(v, got, algorithm), nil
	return ValueLimit{Key: hottype.Key(key), Limit: l}
}

// clientKey reads what names a client: "header.X-User".
func (v value) clientKey() string {
	name, ok := strings.CutPrefix(v.text(), "header.")
	if !ok || !headerName.MatchString(name) {
		v.fail("has to be header.NAME, the header that names the client")
		return ""
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// smallBurst is from where on clients who ask for little get all of it, also if they
// ask at random moments.
const smallBurst = 10

// checkFair complains about limits that cannot be divided.
func (l *Limit) checkFair(got map[string]value) {
	fair := got["fair"]
	switch s := l.Spec; {
	case !l.Fair && l.ClientHeader != "":
		got["client_key"].fail("has a meaning only with fair: true")
	case !l.Fair || fair.failed():
	case !limitcore.Spec(s).Refills():
		fair.fail("%s has no level that clients could share; token_bucket, gcra and leaky_bucket have", s.Algorithm)
	case s.Block > 0:
		fair.fail("block denies the key to everybody for a while; leave out one of them")
	case s.Capacity() < smallBurst:
		fair.warn("a burst of %d is small: clients at random moments get less than their share below %d", s.Capacity(),
			smallBurst)
	}
}

func (v value) scope() Scope { return Scope(v.word("instance", "cluster")) }

func (v value) failurePolicy() FailurePolicy {
	return FailurePolicy(v.word("local", "open", "closed"))
}
