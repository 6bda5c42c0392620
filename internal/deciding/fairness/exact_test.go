package fairness

import (
	"hash/maphash"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// near reports whether two numbers are equal except for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// The fair rate and the tokens that a client may save follow from the limit and the level of its bucket.
func TestDivider_RatesByLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec                     limit.Spec
		level, fair, first, most float64
	}{
		{limit.PerSecond(100), 0, 100 * math.Exp(-8), 6, 20},
		{limit.PerSecond(100), 0.45, 100 * math.Exp(-4), 6, 20},
		{limit.PerSecond(100), 0.75, 100 * math.Exp(-8./6), 50 * math.Exp(-8./6), 20},
		{limit.PerSecond(100), 0.9, 100, 50, 50},
		{limit.PerSecond(100), 1, 400, 50, 50}, // half a bucket at most
		{limit.PerSecond(10), 0.5, 10 * math.Exp(-32./9), 5, 5},
		{limit.PerSecond(1), 1, 4, 2, 2}, // two tokens at least
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 60, Window: time.Minute, Burst: 600}, 0.6, math.Exp(-8. / 3),
			300 * math.Exp(-8./3), 300 * math.Exp(-8./3)},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1 << 22, Window: time.Second, Burst: 1 << 22}, 0.95,
			2.5 * (1 << 22),
			1 << 20, 1 << 20},
	} {
		k := NewDivider(c.spec)
		k.RecordDenied(epoch, Level{Left: c.level, Limiters: 1}, hottype.Client{}, 1, Result{})
		if !near(k.fair, c.fair) || !near(k.first, c.first) || !near(k.most, c.most) || k.credits.first != k.first {
			t.Errorf("%+v at %v: fair %v, first %v, most %v, want %v, %v, %v", c.spec, c.level, k.fair, k.first, k.most,
				c.fair, c.first, c.most)
		}
	}
}

// The times of a Divider follow from its bucket, within bounds.
func TestDivider_TimesByLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, burst int64
		window       time.Duration
		every, quiet time.Duration
	}{
		{100, 100, time.Second, time.Second / 64, time.Second},
		{100, 6400, time.Second, time.Second, 2 * time.Second},
		{60, 1, time.Minute, time.Second / 64, time.Second},
		{100, 3, time.Second, time.Millisecond, 250 * time.Millisecond},
		{3, 1000, 24 * time.Hour, time.Hour, 2 * time.Second}, // an hour bounds what overflows
	} {
		k := NewDivider(limit.Spec{Algorithm: limit.TokenBucket, Limit: c.limit, Window: c.window, Burst: c.burst})
		if k.every != c.every && c.every != time.Hour || k.every > time.Hour || k.quietPeriod != c.quiet {
			t.Errorf("%+v: every %v, quiet %v", c, k.every, k.quietPeriod)
		}
	}
}

// RetryAfter is exact: the time until the client's own credit, its network's credit, the credit of the network's
// parent, and its turn among newcomers.
func TestRetryAfterIsExact(t *testing.T) {
	t.Parallel()
	who := client("192.0.2.1")
	for name, c := range map[string]struct {
		prepare func(*Divider) time.Time
		short   func(*Divider) float64 // tokens at the fair rate
		need    float64
	}{
		"client": {func(k *Divider) time.Time { spend(k, epoch, who, 1); return epoch },
			func(*Divider) float64 { return 3 }, 3},
		"network": {func(k *Divider) time.Time {
			h := hashesOf(k.seed, who)
			k.credits.chargeCredit(k.findPayers(h, epoch).network, h.network, k.first-0.25, k.most)
			return epoch
		}, func(*Divider) float64 { return 3 - 8*0.25 }, 3},
		"parent": {func(k *Divider) time.Time {
			h := hashesOf(k.seed, who)
			k.credits.chargeCredit(k.findPayers(h, epoch).parent, h.parent, k.first-0.03125, k.most)
			return epoch
		}, func(*Divider) float64 { return 3 - 32*0.03125 }, 3},
		"newcomer": {func(k *Divider) time.Time {
			now := later(k)
			k.newcomers = -4
			return now
		}, func(k *Divider) float64 { return (1 + 4) * 32 * k.fair / (0.25 * 100) }, 3},
		"newcomer for itself": {func(k *Divider) time.Time {
			now := later(k)
			for range 100 { // its places are taken, so it is one that takes over
				k.newcomers = 1000
				spend(k, now, who, 1)
			}
			return now
		}, func(*Divider) float64 { return 1 }, 1},
	} {
		k := contended(epoch)
		now := c.prepare(k)
		a := k.Charge(now, who, int64(c.need))
		short := c.short(k)
		retry, reset := durationOf(short/k.fair), durationOf((short-c.need+k.most)/k.fair)
		if a.Allowed || (a.RetryAfter-retry).Abs() > time.Microsecond || (a.ResetAfter-reset).Abs() > time.Microsecond {
			t.Errorf("%s: %+v, want %v and %v", name, a, retry, reset)
		}
	}
}

// It ends at the very moment and level that its constants name.
func TestDivider_EndsAtItsBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after time.Duration
		level float64
		on    bool
	}{
		{time.Second, 0.97, false}, {time.Second - 1, 0.97, true}, {time.Second, 0.9699, true},
	} {
		k, at := contended(epoch), epoch.Add(c.after)
		k.RecordAllowed(at, Level{Left: c.level, Limiters: 1})
		if a := k.Charge(at, client("192.0.2.1"), 1); k.active.Load() != c.on || a.Charged != c.on {
			t.Errorf("%+v: %+v", c, a)
		}
	}
	// A small bucket has only to lack one token; clients that fairness denies keep it on.
	k := NewDivider(limit.PerSecond(10))
	k.RecordDenied(epoch, Level{Limiters: 1}, hottype.Client{}, 1, Result{})
	spend(k, epoch, client("192.0.2.1"), 1)
	at := epoch.Add(900 * time.Millisecond)
	k.RecordAllowed(at, Level{Limiters: 1})
	if a := k.Charge(at, client("192.0.2.1"), 5); a.Allowed {
		t.Fatalf("%+v", a)
	}
	k.RecordAllowed(at.Add(k.quietPeriod-1), Level{Left: 1, Limiters: 1})
	if k.Charge(at.Add(k.quietPeriod-1), client("192.0.2.1"), 1); !k.active.Load() {
		t.Error("it ended while it denied")
	}
	k.RecordAllowed(at.Add(2*k.quietPeriod), Level{Left: 0.89, Limiters: 100})
	if k.Charge(at.Add(2*k.quietPeriod), client("192.0.2.1"), 1); !k.active.Load() {
		t.Error("more than one token short of full, it ended")
	}
	k.RecordAllowed(at.Add(2*k.quietPeriod), Level{Left: 0.9, Limiters: 1})
	if k.Charge(at.Add(2*k.quietPeriod+k.every), client("192.0.2.1"), 1); k.active.Load() {
		t.Error("one token short of full, it did not end")
	}
}

// Addresses share a network of /24 or /48 and a parent of /16 or /32, and nothing larger.
func TestHashesOf_Networks(t *testing.T) {
	t.Parallel()
	seed := maphash.MakeSeed()
	for _, c := range []struct {
		a, b            string
		network, parent bool
	}{
		{"192.0.2.1", "192.0.2.255", true, true},
		{"192.0.2.1", "192.0.3.1", false, true},
		{"192.0.2.1", "192.1.2.1", false, false},
		{"192.0.2.1", "193.0.2.1", false, false},
		{"2001:db8:7:1::", "2001:db8:7:ff00::", true, true},
		{"2001:db8:7::", "2001:db8:8::", false, true},
		{"2001:db8:700::", "2001:db8:800::", false, true},
		{"2001:db8:7::", "2001:db9:7::", false, false},
		{"2001:d08:7::", "2001:e08:7::", false, false},
	} {
		a, b := hashesOf(seed, client(c.a)), hashesOf(seed, client(c.b))
		if a.client == b.client || a.network == b.network != c.network || a.parent == b.parent != c.parent {
			t.Errorf("%s and %s: network %v, parent %v", c.a, c.b, a.network == b.network, a.parent == b.parent)
		}
	}
	if n := hashesOf(seed, hottype.Client{Name: "a"}); n.network != 0 || n.parent != 0 {
		t.Errorf("a name has %+v", n)
	}
}

// What newcomers may have flows in by the time, and each takes its cost from it; known clients take nothing.
func TestDivider_RefillsTheNewcomersAccount(t *testing.T) {
	t.Parallel()
	k := contended(epoch)
	if newcomerCredit != 2 {
		t.Errorf("a newcomer has %d tokens, want 2", newcomerCredit)
	}
	if k.newcomers != 50 {
		t.Errorf("%v at the beginning, want half a bucket of 100", k.newcomers)
	}
	at := epoch.Add(maxCalm)
	k.RecordDenied(at, Level{Left: 0.9, Limiters: 1}, hottype.Client{}, 1, Result{})
	if k.Charge(at, client("192.0.2.1"), 1); k.newcomers != 50 {
		t.Errorf("%v after a client of the first two seconds, want 50", k.newcomers)
	}
	at = at.Add(time.Nanosecond)
	if k.Charge(at, client("198.51.100.1"), 5); k.newcomers != 45 {
		t.Errorf("%v after a newcomer of cost 5, want 45", k.newcomers)
	}
	if k.Charge(at, client("198.51.100.1"), 5); k.newcomers != 45 {
		t.Errorf("%v after it came back, want 45", k.newcomers)
	}
	if k.Charge(at, client("203.0.113.1"), 1000); k.newcomers != -100 {
		t.Errorf("%v after a cost of 1000, want a bucket owed at most", k.newcomers)
	}
	k.RecordDenied(at, Level{Left: 0.9, Limiters: 1}, hottype.Client{}, 1, Result{})
	at = at.Add(20*time.Millisecond - time.Nanosecond)
	if k.Charge(at, client("192.0.2.1"), 1); !near(k.newcomers, -100+32*k.fair*0.02) {
		t.Errorf("%v after 20 ms, want what 32 clients have in this time", k.newcomers)
	}
	at = at.Add(time.Second)
	k.RecordDenied(at, Level{Left: 0.9, Limiters: 1}, hottype.Client{}, 1, Result{})
	if k.Charge(at, client("192.0.2.1"), 1); k.newcomers != 50 {
		t.Errorf("%v after a second, want half a bucket", k.newcomers)
	}
}

// One step advances time by a second at most.
func TestDivider_BoundsItsStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ step, counts time.Duration }{
		{15 * time.Millisecond, 0}, {time.Second / 64, time.Second / 64}, {time.Second, time.Second},
		{time.Hour, time.Second}, {-time.Second, 0},
	} {
		k := contended(epoch)
		before := k.credits.now
		at := epoch.Add(c.step)
		k.RecordDenied(at, Level{Left: 0.1, Limiters: 1000}, hottype.Client{}, 1, Result{})
		k.Charge(at, client("192.0.2.1"), 1)
		if got := k.credits.now - before; !near(got, k.fair*c.counts.Seconds()*scale) {
			t.Errorf("a step of %v: %v units, want those of %v", c.step, got, c.counts)
		}
	}
}

// Charges and their refunds leave every credit as it was.
func TestRefundUndoesCharge(t *testing.T) {
	t.Parallel()
	who := client("192.0.2.1")
	for _, newcomer := range []bool{false, true} {
		for _, cost := range []int64{1, 3, 8, 50} {
			k, now := contended(epoch), epoch
			spend(k, epoch, client("192.0.2.2"), 1) // of the same networks
			if newcomer {
				now = later(k)
			} else {
				k.Refund(who, 1, k.Charge(epoch, who, 1)) // it is known now
			}
			h := hashesOf(k.seed, who)
			accounts := func() [4]float64 {
				p := k.findPayers(h, now)
				return [4]float64{k.credits.tokensLeft(p.client, 99), k.credits.tokensLeft(p.network, 99),
					k.credits.tokensLeft(p.parent, 99), k.newcomers}
			}
			before := accounts()
			want := before
			if newcomer {
				want[0] = newcomerCredit // it is known now
			}
			a := k.Charge(now, who, cost)
			if !a.Charged || a.newcomer != newcomer || accounts() == before {
				t.Fatalf("cost %d: %+v", cost, a)
			}
			k.Refund(who, cost, a)
			if after := accounts(); after != want {
				t.Errorf("newcomer %v, cost %d: %v, want %v", newcomer, cost, after, want)
			}
		}
	}
}

// After a reset all clients and networks begin again.
func TestResetForgets(t *testing.T) {
	t.Parallel()
	k, total := contended(epoch), 0
	for range 2 {
		for i := range 20 {
			n, _ := spend(k, epoch, client("192.0.2."+string(rune('0'+i%10))), 1)
			total += n
		}
		k.Reset()
		k.RecordDenied(epoch, Level{Limiters: 1}, hottype.Client{}, 1, Result{})
	}
	if total != 2*48 {
		t.Errorf("%d passed, want 48 twice", total)
	}
}

// Newcomers pass as long as anything of their account is left.
func TestLastOfTheNewcomers(t *testing.T) {
	t.Parallel()
	k := contended(epoch)
	now := later(k)
	k.newcomers = 0.5
	for i, want := range []bool{true, false} {
		if a := k.Charge(now, hottype.Client{Name: string(rune('a' + i))}, 1); a.Allowed != want {
			t.Errorf("newcomer %d: %+v, account %v", i, a, k.newcomers)
		}
	}
}

// A credit survives the sweep that keeps virtual time in range: debts of clients and of networks stay.
func TestCapCredits_KeepsDebts(t *testing.T) {
	t.Parallel()
	const most = 6
	c := credits{first: most}
	whole, _ := c.find(c.networks[:], 3)
	c.chargeCredit(whole, 3, 1, most)
	for range 1 << 11 {
		c.advance(1<<11, most)
		if left := c.tokensLeft(whole, most); left != most {
			t.Fatalf("a network has %v left at %v", left, c.now)
		}
	}
	for range 1 << 10 { // half of the time to the next sweep
		c.advance(1<<9, most)
	}
	owes, _ := c.find(c.clients[:], 7)
	c.chargeCredit(owes, 7, maxCredit, most)
	for range 1<<11 - 2 {
		c.advance(1<<9, most)
	}
	if left := c.tokensLeft(owes, most); left != most-1024 {
		t.Errorf("%v left, want %v", left, most-1024)
	}
}

// The memory of a key has the size in the package comment.
func TestMemoryOfAKey(t *testing.T) {
	t.Parallel()
	if got, want := unsafe.Sizeof(credits{}), uintptr((1024+512)*8+3*8); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if fingerprintOf(0) == 0 { // 0 is a free credit
		t.Error("a client may be none")
	}
	if got := durationOf(1e9); got != time.Hour {
		t.Errorf("%v at most, want an hour", got)
	}
	k := contended(epoch)
	if k.RecordAllowed(epoch, Level{Left: 0.5}); k.estimatedLevel(epoch.Add(time.Second/4)) != 75 {
		t.Error("a level without a number of limiters is not that of one")
	}
	if at := epoch.Add(-maxStep); !k.Charge(at, client("192.0.2.1"), 1).Allowed || k.at != epoch {
		t.Errorf("a second back moved the time to %v", k.at)
	}
	if at := epoch.Add(-maxStep - 1); !k.Charge(at, client("192.0.2.1"), 1).Allowed || k.at != at || k.denied != at {
		t.Errorf("more than a second back left the time at %v", k.at)
	}
}

// After any advance of virtual time, saved tokens stay and debts are earned: the range of a credit is never used up.
func TestCreditsOutliveTheirRange(t *testing.T) {
	t.Parallel()
	const most = 10
	c := credits{first: most}
	c.clear()
	hash := func(i int) uint64 { return uint64(i)<<40 | uint64(i) }
	for i, cost := range []float64{1, most, most + 90} {
		for _, of := range [][][ways]credit{c.clients[:], c.networks[:]} {
			e, _ := c.find(of, hash(i+1))
			c.chargeCredit(e, hash(i+1), cost, most)
		}
	}
	for step := range 100 { // twelve times the range
		c.advance(sweepAfter/scale-1, most)
		for i := range 3 {
			for _, of := range [][][ways]credit{c.clients[:], c.networks[:]} {
				e, known := c.find(of, hash(i+1))
				if left := c.tokensLeft(e, most); !known || left != most {
					t.Fatalf("step %d, credit %d: known %v, %v left", step, i, known, left)
				}
			}
		}
	}
}
