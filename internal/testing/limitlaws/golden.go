package limitlaws

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// unspecified marks a number that a published table leaves out.
const unspecified = -2

// row is one call and its reply, in milliseconds. A retry of -1 means never.
type row struct {
	t, cost                 int64
	allowed                 bool
	remaining, retry, reset int64
}

func ok(t, cost, remaining int64) row { return row{t, cost, true, remaining, 0, unspecified} }
func no(t, cost, retry int64) row     { return row{t, cost, false, unspecified, retry, unspecified} }
func never(t, cost, left int64) row   { return row{t, cost, false, left, -1, unspecified} }

// left and whole set the remaining number of a row, and the time until the limit is full again.
func (r row) left(n int64) row   { r.remaining = n; return r }
func (r row) whole(ms int64) row { r.reset = ms; return r }

type tape struct {
	name string
	spec limit.Spec
	rows []row
}

// spec and the functions below return specs with times in milliseconds.
func spec(a limit.Algorithm, n, ms int64) limit.Spec {
	return limit.Spec{Algorithm: a, Limit: n, Window: time.Duration(ms) * time.Millisecond}
}

func fixed(n, ms int64) limit.Spec    { return spec(limit.FixedWindow, n, ms) }
func anchored(n, ms int64) limit.Spec { return spec(limit.AnchoredWindow, n, ms) }
func logged(n, ms int64) limit.Spec   { return spec(limit.SlidingLog, n, ms) }
func sliding(n, ms int64) limit.Spec  { return spec(limit.SlidingWindow, n, ms) }

func bucket(burst, n, ms int64) limit.Spec {
	s := spec(limit.TokenBucket, n, ms)
	s.Burst = burst
	return s
}

// waiting returns a spec whose calls may wait.
func waiting(s limit.Spec, ms int64) limit.Spec {
	s.Wait = time.Duration(ms) * time.Millisecond
	return s
}

func gcra(burst, n, ms int64) limit.Spec {
	s := spec(limit.GCRA, n, ms)
	s.Burst = burst
	return s
}

func bucketed(n, ms, buckets int64) limit.Spec {
	s := spec(limit.BucketedWindow, n, ms)
	s.Buckets = buckets
	return s
}

// published is the output of throttled and redis-cell for five at once and one per second.
var published = []row{
	never(0, 6, 5).whole(0), ok(0, 1, 4).whole(1000), ok(0, 1, 3).whole(2000), ok(0, 1, 2).whole(3000),
	ok(0, 1, 1).whole(4000), ok(0, 1, 0).whole(5000), no(0, 1, 1000).left(0).whole(5000),
	ok(3000, 1, 2).whole(3000), ok(3100, 1, 1).whole(3900), ok(4000, 1, 1).whole(4000), ok(8000, 1, 4).whole(1000),
	ok(9500, 1, 4).whole(1000), ok(9500, 0, 4).whole(1000), ok(9500, 2, 2).whole(3000),
	no(9500, 5, 3000).left(2).whole(3000), never(15000, 6, 5).whole(0),
}

func tapes() []tape {
	return []tape{
		{"fixed window", fixed(5, 1000), []row{
			ok(0, 1, 4).whole(1000), ok(0, 4, 0), no(0, 1, 1000), no(999, 1, 1), ok(1000, 5, 0), no(1000, 1, 1000),
			ok(1999, 0, 0).whole(1), never(2000, 6, 5), ok(2000, 5, 0)}},
		// The same except for the beginning: the window begins at its first cost.
		{"anchored window", anchored(5, 1000), []row{
			ok(300, 0, 5).whole(0), ok(300, 1, 4).whole(1000), ok(700, 4, 0).whole(600), no(700, 1, 600),
			no(1299, 1, 1),
			ok(1300, 0, 5).whole(0), ok(1450, 5, 0).whole(1000), no(1450, 1, 1000), ok(2449, 0, 0).whole(1),
			never(2450, 6, 5), ok(2450, 5, 0), no(2000, 1, 1000)}},
		{"sliding log", logged(3, 1000), []row{
			ok(0, 1, 2), ok(100, 1, 1), ok(200, 1, 0), no(300, 1, 700), no(999, 1, 1), ok(1000, 1, 0), no(1000, 1, 100),
			no(1100, 2, 100).left(1), ok(1200, 2, 0), no(1200, 1, 800), no(2100, 3, 100)}},
		{"sliding log of 0", logged(0, 1000), []row{never(0, 1, 0).whole(0), ok(1, 0, 0)}},
		{"bucketed window", bucketed(10, 1000, 10), []row{
			ok(99, 10, 0).whole(1001), no(100, 1, 1000), no(999, 1, 101), no(1000, 10, 100), no(1099, 1, 1),
			ok(1999, 1, 9).whole(1001), no(2000, 10, 1000), ok(2000, 9, 0), no(2999, 1, 1), no(3000, 2, 100).left(1)}},
		{"bucketed window of one bucket", bucketed(5, 1000, 1),
			[]row{ok(0, 5, 0).whole(2000), no(1999, 1, 1), ok(2000, 1, 4)}},
		{"anchored window of 0", anchored(0, 1000), []row{never(0, 1, 0).whole(0), ok(1, 0, 0)}},
		{"sliding window", sliding(10, 1000), []row{
			ok(999, 10, 0), no(1000, 1, 100), no(1099, 1, 1), ok(1100, 1, 0), no(1100, 1, 100), ok(1500, 4, 0),
			no(1500, 1, 100), ok(1999, 4, 0), no(1999, 1, 1), ok(2000, 1, 0), no(3500, 10, 500)}},
		{"token bucket", bucket(4, 2, 1000), []row{
			ok(0, 4, 0), no(0, 1, 500), no(249, 1, 251), ok(250, 0, 0), no(499, 1, 1), ok(500, 1, 0), no(500, 1, 500),
			ok(1250, 1, 0), no(1250, 1, 250), never(10000, 5, 4), ok(10000, 4, 0), no(9000, 1, 500), ok(10500, 1, 0)}},
		{"bucket of 5 at 1 per second", bucket(5, 1, 1000), published},
		// The third call waits 400 ms, 0.8 of a token. With whole tokens no call would wait.
		{"wait for a part of a token", waiting(bucket(2, 2, 1000), 400), []row{
			ok(0, 2, 0).whole(600), no(0, 1, 100), no(99, 1, 1), ok(100, 1, 0).whole(1000), no(100, 1, 500),
			ok(1100, 0, 2).whole(0), ok(1100, 2, 0).whole(1000), ok(2099, 0, 1).whole(1), ok(2100, 0, 2).whole(0)}},
		{"gcra, 4 early at 1 per second", gcra(4, 1, 1000), published},
		// This row is from redis-cell's end-to-end test.
		{"gcra without burst", gcra(0, 1, 2000), []row{
			ok(0, 1, 0).whole(2000), no(0, 1, 2000).left(0).whole(2000), ok(2000, 1, 0).whole(2000)}},
		// This row is from its documentation: CL.THROTTLE key 15 30 60 on a fresh key.
		{"gcra of 30 per minute", gcra(15, 30, 60_000), []row{ok(0, 1, 15).whole(2000)}},
		{"gcra without rate", gcra(5, 0, 1000), []row{never(0, 1, 0).whole(0), ok(0, 0, 0), never(9000, 1, 0)}},
		{"bucket without burst", bucket(0, 5, 1000), []row{never(0, 1, 0).whole(0), ok(0, 0, 0), never(9000, 1, 0)}},
		{"bucket without rate", bucket(5, 0, 1000), []row{never(0, 1, 0).whole(0), ok(0, 0, 0), never(9000, 1, 0)}},
		{"fixed window of 0", fixed(0, 1000), []row{never(0, 1, 0).whole(0), ok(1, 0, 0)}},
		{"sliding window of 0", sliding(0, 1000), []row{never(0, 1, 0).whole(0), ok(1, 0, 0)}},
	}
}

func testTapes(t *testing.T, f Fixture) {
	for _, tape := range tapes() {
		f.Reset()
		tape.play(t, f)
	}
	for _, r := range publishedSliding {
		f.Reset()
		r.play(t, f)
	}
}

func (tp tape) play(t *testing.T, f Fixture) {
	s := store{f, t}
	for i, want := range tp.rows {
		r := s.ask(want.t*1000, "tape", tp.spec, want.cost)
		got := row{want.t, want.cost, r.Allowed, r.Remaining, r.RetryAfter.Milliseconds(), r.ResetAfter.Milliseconds()}
		if r.RetryAfter == hottype.Never {
			got.retry = -1
		}
		if want.remaining == unspecified {
			got.remaining = unspecified
		}
		if want.reset == unspecified {
			got.reset = unspecified
		}
		if got != want {
			t.Errorf("%s: row %d: got %+v, want %+v", tp.name, i, got, want)
		}
	}
}

// example is the widely published example of a weighted window: 42 in the previous minute, 18 in this minute, a limit
// of 50. Rounding down would allow a request at an estimate of 49.5.
type example struct {
	ms      int64
	allowed bool
}

var publishedSliding = []example{{0, false}, {15_000, false}, {15_001, false}, {16_000, true}, {30_000, true}}

func (e example) play(t *testing.T, f Fixture) {
	s := store{f, t}
	// A higher limit makes this state possible. The units stay the same.
	s.ask(60_000_000, "example", sliding(100, 60_000), 42)
	s.ask(120_000_000, "example", sliding(100, 60_000), 18)
	if r := s.ask(120_000_000+e.ms*1000, "example", sliding(50, 60_000), 1); r.Allowed != e.allowed {
		t.Errorf("sliding 42, 18 against 50 at %d ms: %+v", e.ms, r)
	}
}
