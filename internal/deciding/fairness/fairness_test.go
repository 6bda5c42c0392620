package fairness

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

var epoch = time.Unix(1_800_000_000, 0)

func client(s string) hottype.Client { return hottype.Client{Addr: netip.MustParseAddr(s)} }

// contended is a key of 100/s whose bucket has just denied a request.
func contended(now time.Time) *Divider {
	k := NewDivider(limit.PerSecond(100))
	k.RecordDenied(now, Level{Limiters: 1}, client("192.0.2.1"), 1, Result{Allowed: true})
	return k
}

// spend lets a client ask until it is denied, and says how often it was not.
func spend(k *Divider, now time.Time, who hottype.Client, cost int64) (n int, a Result) {
	for a = k.Charge(now, who, cost); a.Allowed && n < 10_000; a = k.Charge(now, who, cost) {
		n++
	}
	return n, a
}

func TestEverybodyStartsWithAWholeCredit(t *testing.T) {
	t.Parallel()
	k := contended(epoch)
	for _, who := range []string{"192.0.2.1", "198.51.100.7", "2001:db8::"} {
		if n, _ := spend(k, epoch, client(who), 1); n != 6 {
			t.Errorf("%s may ask %d times, want 6", who, n)
		}
	}
}

func TestCharge_RetryAfterSuffices(t *testing.T) {
	t.Parallel()
	k, who := contended(epoch), client("192.0.2.1")
	_, a := spend(k, epoch, who, 1)
	if a.RetryAfter <= 0 || a.ResetAfter < a.RetryAfter {
		t.Fatalf("%+v", a)
	}
	// The level falls behind as long as the bucket is taken to be empty.
	k.RecordAllowed(epoch, Level{Left: 0.4, Limiters: 1000})
	if later := k.Charge(epoch.Add(a.RetryAfter+k.every), who, 1); !later.Allowed {
		t.Errorf("after %v: %+v", a.RetryAfter, later)
	}
}

// A network pays an eighth of its clients' charges, so it has as much as eight clients.
func TestNetworkIsEightClients(t *testing.T) {
	t.Parallel()
	for _, first := range []netip.Addr{netip.MustParseAddr("192.0.2.0"), netip.MustParseAddr("2001:db8:7::")} {
		k, total, addr := contended(epoch), 0, first.As16()
		for i := range 100 {
			if addr[15] = byte(i); first.Is6() {
				addr[7], addr[15] = byte(i), 0
			}
			n, _ := spend(k, epoch, hottype.ClientFromAddr(netip.AddrFrom16(addr)), 1)
			total += n
		}
		if total != 48 {
			t.Errorf("%s: %d, want 8 x 6", first, total)
		}
	}
}

// The parent of networks pays a quarter of their charges, so 50 networks of one parent have as much as four.
func TestParentIsFourNetworks(t *testing.T) {
	t.Parallel()
	for _, first := range []netip.Addr{netip.MustParseAddr("192.0.2.0"), netip.MustParseAddr("2001:db8:7::")} {
		k, total, addr := contended(epoch), 0, first.As16()
		for i := range 50 * 8 {
			if addr[14], addr[15] = byte(i/8), byte(i); first.Is6() {
				addr[5], addr[15] = byte(i/8), byte(i)
			}
			n, _ := spend(k, epoch, hottype.ClientFromAddr(netip.AddrFrom16(addr)), 1)
			total += n
		}
		// Of 50 networks a few may share one set of places, where a credit that another network took begins again.
		if total < 4*8*6 || total > 4*8*6+6 {
			t.Errorf("%s: %d, want 4 x 8 x 6", first, total)
		}
	}
}

// later returns a time at which unknown clients are newcomers.
func later(k *Divider) time.Time {
	now := epoch.Add(maxCalm + time.Millisecond)
	k.RecordDenied(now, Level{Limiters: 1}, hottype.Client{}, 1, Result{})
	k.Charge(now, hottype.Client{Name: "nobody"}, 1)
	k.newcomers = 10
	return now
}

// After the beginning newcomers together have one account, and each of them a small credit
// beside it. Known clients do not pay from it.
func TestNewcomersHaveOneAccount(t *testing.T) {
	t.Parallel()
	k := contended(epoch)
	spend(k, epoch, client("192.0.2.1"), 1)
	now, passed := later(k), 0
	for i := range 1000 {
		if k.Charge(now, hottype.Client{Name: time.Duration(i).String()}, 1).Allowed {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("%d newcomers passed, want 10", passed)
	}
	if n, _ := spend(k, now, hottype.Client{Name: "0s"}, 1); n != newcomerCredit {
		t.Errorf("the first may ask %d times more, want %d", n, newcomerCredit)
	}
	a := k.Charge(now, hottype.Client{Name: "new"}, 1)
	if a.Allowed || a.RetryAfter <= 0 {
		t.Fatalf("%+v", a)
	}
	k.RecordAllowed(now, Level{Left: 0.5, Limiters: 1})
	if n, _ := spend(k, now.Add(500*time.Millisecond), client("192.0.2.1"), 1); n == 0 {
		t.Error("a known client has to wait for newcomers")
	}
}

// What newcomers have is at least a quarter of the part of the limit that flows to this process,
// and at most half a bucket.
func TestNewcomersHaveAQuarter(t *testing.T) {
	t.Parallel()
	k := contended(epoch)
	now := later(k)
	k.newcomers = -50
	k.RecordDenied(now, Level{Limiters: 2}, hottype.Client{}, 1, Result{}) // level 0: next to nothing by the price
	k.Charge(now.Add(100*time.Millisecond), hottype.Client{Name: "new"}, 1)
	if got := k.newcomers; got < -48.8 || got > -48.7 {
		t.Errorf("%v after 0.1 s, want 1.25 more than -50", got)
	}
	k.RecordDenied(now, Level{Left: 0.8, Limiters: 1}, hottype.Client{}, 1, Result{})
	k.Charge(now.Add(time.Second), client("192.0.2.1"), 1)
	if k.newcomers > 50 {
		t.Errorf("%v, want at most half a bucket of 100", k.newcomers)
	}
}

// A newcomer that is denied elsewhere has taken nothing from the others.
func TestRefundedNewcomerPaysNothing(t *testing.T) {
	t.Parallel()
	k := contended(epoch)
	now, who := later(k), hottype.Client{Name: "new"}
	k.Refund(who, 3, k.Charge(now, who, 3))
	if k.newcomers != 10 {
		t.Errorf("%v left, want 10", k.newcomers)
	}
	if n, _ := spend(k, now, who, 1); n != newcomerCredit {
		t.Errorf("it may ask %d times after the refund, want %d", n, newcomerCredit)
	}
}

// A flood of clients that do not come back evicts none that did.
func TestCredits_KeepReturnedClients(t *testing.T) {
	t.Parallel()
	c := credits{first: 6}
	take := func(hash uint64) bool {
		e, known := c.find(c.clients[:], hash)
		c.chargeCredit(e, hash, 1, 6)
		return known
	}
	take(7 << 40)
	take(7 << 40)
	for i := range uint64(1000) {
		c.advance(2, 6)
		take((100 + i) << 40)
	}
	if !take(7 << 40) {
		t.Error("evicted")
	}
}

// A name has no network.
func TestDivider_NamesAreClients(t *testing.T) {
	t.Parallel()
	k := contended(epoch)
	for i := range 100 {
		if n, _ := spend(k, epoch, hottype.Client{Name: "user" + string(rune('0'+i))}, 1); n != 6 {
			t.Fatalf("name %d may ask %d times", i, n)
		}
	}
}

// A flood of new names gets what there are free places for, and then what newcomers have.
func TestNewNamesFindNoNewCredit(t *testing.T) {
	t.Parallel()
	k, passed := contended(epoch), 0
	for i := range 100_000 {
		if k.Charge(epoch, hottype.Client{Name: time.Duration(i).String()}, 1).Allowed {
			passed++
		}
	}
	if most := sets*ways + int(k.burst/2); passed > most {
		t.Errorf("%d passed, want at most %d", passed, most)
	}
}

// What costs more than can be saved needs a whole credit and leaves a debt.
func TestCostAboveTheCredit(t *testing.T) {
	t.Parallel()
	k, who := contended(epoch), client("192.0.2.1")
	if a := k.Charge(epoch, who, 50); !a.Allowed || !a.Charged {
		t.Fatalf("%+v", a)
	}
	a := k.Charge(epoch, who, 1)
	if want := durationOf(45 / k.fair); a.Allowed || a.RetryAfter != want {
		t.Errorf("%+v, want RetryAfter %v", a, want)
	}
	k.Refund(who, 50, Result{})
	if n, _ := spend(k, epoch, who, 1); n != 6 {
		t.Errorf("%d after the refund, want 6", n)
	}
}

// Where the bucket or another limit denies, the client has paid nothing.
func TestRecordDenied_RefundsTheClient(t *testing.T) {
	t.Parallel()
	k, who := contended(epoch), client("192.0.2.1")
	for range 100 {
		k.RecordDenied(epoch, Level{Limiters: 1}, who, 1, k.Charge(epoch, who, 1))
	}
	if n, _ := spend(k, epoch, who, 1); n != 6 {
		t.Errorf("%d, want 6", n)
	}
}

// It ends when the bucket is full and no request has been denied for a second, not sooner.
func TestEndsWhenItIsCalm(t *testing.T) {
	t.Parallel()
	k, who := contended(epoch), client("192.0.2.1")
	for _, c := range []struct {
		after time.Duration
		level float64
		on    bool
	}{{100 * time.Millisecond, 1, true}, {1100 * time.Millisecond, 0.9, true}, {1200 * time.Millisecond, 1, false}} {
		k.RecordAllowed(epoch.Add(c.after), Level{Left: c.level, Limiters: 1})
		k.Charge(epoch.Add(c.after), who, 1)
		if k.active.Load() != c.on {
			t.Errorf("after %v at level %v: on is %v", c.after, c.level, !c.on)
		}
	}
}

// A clock that jumps in either direction neither grants a fortune nor starves a client.
func TestDivider_ClockJumps(t *testing.T) {
	t.Parallel()
	k, who := contended(epoch), client("192.0.2.1")
	spend(k, epoch, who, 1)
	at := epoch
	for _, jump := range []time.Duration{24 * time.Hour, -48 * time.Hour, time.Hour} {
		k.RecordDenied(at, Level{Limiters: 1}, who, 1, Result{})
		at = at.Add(jump)
		k.RecordDenied(at, Level{Limiters: 1}, who, 1, Result{})
		if n, _ := spend(k, at, who, 1); n > 200 {
			t.Errorf("%d after a jump of %v", n, jump)
		}
		k.RecordAllowed(at, Level{Left: 0.8, Limiters: 1})
		if a := k.Charge(at.Add(time.Second), who, 1); !a.Allowed {
			t.Errorf("%+v a second after a jump of %v", a, jump)
		}
	}
}

// Virtual time wraps at 2^32 units: no client is in debt because of it, and no debt is lost
// sooner than it is paid.
func TestCredits_VirtualTimeWraps(t *testing.T) {
	t.Parallel()
	c := credits{first: 6}
	const most = 6
	e, _ := c.find(c.clients[:], 7)
	c.chargeCredit(e, 7, 3, most)
	for range 1 << 12 {
		c.advance(1<<11, most)
		if left := c.tokensLeft(e, most); left != most {
			t.Fatalf("%v left at %v", left, c.now)
		}
	}
	c.chargeCredit(e, 7, 1e9, most)
	c.advance(maxCredit-10, most)
	if left := c.tokensLeft(e, most); left != -10 {
		t.Errorf("%v left of a debt, want -10", left)
	}
}

// Between results the level rises by the tokens that flow in for this process.
func TestLevelBetweenAnswers(t *testing.T) {
	t.Parallel()
	k, spec := contended(epoch), limit.PerSecond(100)
	r := &limit.Result{Allowed: true, Limit: 100, Remaining: 20, ResetAfter: 500 * time.Millisecond}
	k.RecordAllowed(epoch, LevelOf(&spec, r, 4))
	if got := k.estimatedLevel(epoch.Add(time.Second)); got != 75 {
		t.Errorf("%v after a second, want 50 and a quarter of 100", got)
	}
}

func TestDivisible(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec limit.Spec
		want bool
	}{
		{limit.PerSecond(1), true},
		{limit.Spec{Algorithm: limit.GCRA, Limit: 1, Window: time.Second}, true},
		{limit.Spec{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second}, false},
		{limit.Spec{Algorithm: limit.TokenBucket, Window: time.Second, Burst: 1}, false},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second}, false},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1, Block: time.Second}, false},
	} {
		if got := Divisible(c.spec); got != c.want {
			t.Errorf("%+v: %v", c.spec, got)
		}
	}
}

// For the race detector: all methods at once.
func TestDivider_ConcurrentUse(t *testing.T) {
	t.Parallel()
	k := contended(epoch)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				now, who := epoch.Add(time.Duration(i)*time.Millisecond), client("192.0.2.1")
				switch a := k.Charge(now, who, 1); (i + g) % 4 {
				case 0:
					k.RecordDenied(now, Level{Limiters: 1}, who, 1, a)
				case 1:
					k.Refund(who, 1, a)
				default:
					k.RecordAllowed(now, Level{Left: 0.5, Limiters: 1})
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkAsk(b *testing.B) {
	now, who := epoch, client("192.0.2.1")
	b.Run("off", func(b *testing.B) {
		k := NewDivider(limit.PerSecond(100))
		b.ReportAllocs()
		for b.Loop() {
			k.Charge(now, who, 1)
		}
	})
	b.Run("denied", func(b *testing.B) {
		k := contended(now)
		spend(k, now, who, 1)
		b.ReportAllocs()
		for b.Loop() {
			k.Charge(now, who, 1)
		}
	})
	b.Run("admitted", func(b *testing.B) {
		k, at := contended(now), now
		b.ReportAllocs()
		for b.Loop() {
			at = at.Add(10 * time.Millisecond)
			a := k.Charge(at, who, 1)
			if !a.Charged {
				b.Fatal("not admitted")
			}
			k.RecordAllowed(at, Level{Left: 0.9, Limiters: 1})
		}
	})
}

// A refund for a client whose credit another one took over changes nothing of the other's.
func TestRefundAfterTheCreditIsAnothers(t *testing.T) {
	t.Parallel()
	const most = 4
	c := credits{first: most}
	c.advance(10, most)
	gone := uint64(7) << 40
	take := func(hash uint64, cost float64) {
		e, _ := c.find(c.clients[:], hash)
		c.chargeCredit(e, hash, cost, most)
	}
	take(gone, 1)
	for i := range uint64(ways) { // all of its set
		other := (100+i)<<40 | gone%sets
		take(other, 3)
	}
	before := c.clients
	c.refundCredit(c.clients[:], gone, 1)
	if c.clients != before {
		t.Error("the refund changed another client's credit")
	}
}
