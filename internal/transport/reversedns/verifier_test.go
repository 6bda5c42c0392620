package reversedns

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
)

const google = "googlebot.com google.com"

// zone is a DNS server in the test: names of addresses, and addresses of names.
type zone struct {
	names   map[string]string // PTR, by address
	addrs   map[string]string // A or AAAA, by name
	dead    atomic.Bool       // it does not answer
	queries atomic.Int64
}

// dial connects to the server; each connection answers one query.
func (z *zone) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go z.serve(theirs)
	return ours, nil
}

func (z *zone) serve(c net.Conn) {
	defer c.Close()
	head := make([]byte, 2)
	if _, err := readFull(c, head); err != nil {
		return
	}
	msg := make([]byte, int(head[0])<<8|int(head[1]))
	if _, err := readFull(c, msg); err != nil {
		return
	}
	z.queries.Add(1)
	if z.dead.Load() {
		_, _ = c.Read(head) // until the caller gives up
		return
	}
	var m dnsmessage.Message
	if m.Unpack(msg) != nil {
		return
	}
	out := z.answer(m)
	b, _ := out.Pack()
	_, _ = c.Write(append([]byte{byte(len(b) >> 8), byte(len(b))}, b...))
}

func readFull(c net.Conn, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = c.Read(b[n:])
		n += k
	}
	return n, err
}

func (z *zone) answer(m dnsmessage.Message) dnsmessage.Message {
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
	name := strings.TrimSuffix(q.Name.String(), ".")
	switch q.Type {
	case dnsmessage.TypePTR:
		for addr, host := range z.names {
			if reverse(netip.MustParseAddr(addr)) == name {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head,
					Body: &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(host + ".")}})
			}
		}
	case dnsmessage.TypeA, dnsmessage.TypeAAAA:
		a, err := netip.ParseAddr(z.addrs[name])
		switch {
		case err != nil:
		case a.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head,
				Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	if len(m.Answers) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	return m
}

// reverse is the name under which an address has its PTR.
func reverse(a netip.Addr) string {
	var parts []string
	b := a.AsSlice()
	for i := len(b) - 1; i >= 0; i-- {
		if a.Is4() {
			parts = append(parts, fmt.Sprint(b[i]))
			continue
		}
		parts = append(parts, fmt.Sprintf("%x", b[i]&15), fmt.Sprintf("%x", b[i]>>4))
	}
	if a.Is4() {
		return strings.Join(parts, ".") + ".in-addr.arpa"
	}
	return strings.Join(parts, ".") + ".ip6.arpa"
}

// bundle is a verifier that runs, in a bubble of synctest.
type bundle struct {
	*Verifier
	zone *zone
	now  time.Time
}

func run(t *testing.T, z *zone) *bundle {
	t.Helper()
	v := New(&net.Resolver{PreferGo: true, StrictErrors: true, Dial: z.dial}, nil)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return &bundle{v, z, time.Unix(1_800_000_000, 0)}
}

// ask asks, lets the look-up come to its end, and asks again.
func (b *bundle) ask(addr string) (first, then bool) {
	a := netip.MustParseAddr(addr)
	first = b.Verified(b.now, a, google)
	time.Sleep(time.Minute) // of the bubble: it takes no time
	synctest.Wait()
	return first, b.Verified(b.now, a, google)
}

func TestVerifier_VerifiesBothWays(t *testing.T) {
	t.Parallel()
	z := &zone{
		names: map[string]string{
			"66.249.66.1":          "crawl-66-249-66-1.googlebot.com",
			"2001:4860:4801:10::1": "Crawl.Google.com",
			"192.0.2.1":            "crawl.googlebot.com.evil.example", // another domain
			"192.0.2.2":            "evilgooglebot.com",                // no label of its own
			"192.0.2.3":            "crawl-66-249-66-1.googlebot.com",  // a name that is another's
			"192.0.2.4":            "gone.googlebot.com",               // a name without an address
		},
		addrs: map[string]string{
			"crawl-66-249-66-1.googlebot.com": "66.249.66.1", "Crawl.Google.com": "2001:4860:4801:10::1",
			"crawl.googlebot.com.evil.example": "192.0.2.1", "evilgooglebot.com": "192.0.2.2",
		},
	}
	for addr, want := range map[string]bool{
		"66.249.66.1": true, "::ffff:66.249.66.1": true, "2001:4860:4801:10::1": true,
		"192.0.2.1": false, "192.0.2.2": false, "192.0.2.3": false, "192.0.2.4": false, "192.0.2.5": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := run(t, z)
			if first, then := b.ask(addr); first || then != want {
				t.Errorf("%s: %v, then %v, want %v", addr, first, then, want)
			}
			if st := b.Stats(); st.Lookups != 1 || st.Failures != 0 {
				t.Errorf("%s: %+v", addr, st)
			}
		})
	}
}

// A name in a domain of the client's own sends no query to its servers.
func TestVerifier_DoesNotLookUpForeignNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &zone{names: map[string]string{"192.0.2.1": "a.evil.example"}})
		b.ask("192.0.2.1")
		if n := b.zone.queries.Load(); n != 1 {
			t.Errorf("%d queries, want the PTR alone", n)
		}
	})
}

func TestVerifier_RemembersAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &zone{
			names: map[string]string{"66.249.66.1": "c.googlebot.com"},
			addrs: map[string]string{"c.googlebot.com": "66.249.66.1"},
		})
		start := b.now
		for _, step := range []struct {
			at      time.Duration
			addr    string
			lookups uint64
			want    bool
		}{
			{0, "66.249.66.1", 1, true},
			{23 * time.Hour, "66.249.66.1", 1, true},
			{0, "192.0.2.1", 2, false},
			{59 * time.Minute, "192.0.2.1", 2, false},
			{61 * time.Minute, "192.0.2.1", 3, false},
			{25 * time.Hour, "66.249.66.1", 4, true}, // asked again, and verified meanwhile
		} {
			b.now = start.Add(step.at)
			if _, then := b.ask(step.addr); then != step.want || b.Stats().Lookups != step.lookups {
				t.Errorf("%+v: %v, %+v", step, then, b.Stats())
			}
		}
		// The address passes to another owner: what DNS says now holds.
		clear(b.zone.names)
		b.now = start.Add(50 * time.Hour)
		if _, then := b.ask("66.249.66.1"); then {
			t.Error("an address that lost its name is verified")
		}
	})
}

// A dead DNS costs no decision any time, drops no crawler at once, and is a counter.
func TestVerifier_KeepsCrawlersWhileDNSIsDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &zone{
			names: map[string]string{"66.249.66.1": "c.googlebot.com"},
			addrs: map[string]string{"c.googlebot.com": "66.249.66.1"},
		})
		b.ask("66.249.66.1")
		b.zone.dead.Store(true)
		before := time.Now()
		known := b.Verified(b.now.Add(30*time.Hour), netip.MustParseAddr("66.249.66.1"), google)
		unknown := b.Verified(b.now, netip.MustParseAddr("66.249.66.2"), google)
		if !known || unknown || !time.Now().Equal(before) {
			t.Errorf("known %v, unknown %v, after %v", known, unknown, time.Since(before))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := b.Stats(); st.Failures != 2 {
			t.Errorf("%+v", st)
		}
		if b.Verified(b.now.Add(49*time.Hour), netip.MustParseAddr("66.249.66.1"), google) {
			t.Error("verified for ever")
		}
	})
}

// A client that poses as a crawler from many addresses exhausts neither memory nor DNS, and evicts none that is
// verified.
func TestVerifier_BoundsAFloodOfAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &zone{
			names: map[string]string{"66.249.66.1": "c.googlebot.com"},
			addrs: map[string]string{"c.googlebot.com": "66.249.66.1"},
		})
		b.ask("66.249.66.1")
		asked := b.zone.queries.Load()
		const seconds = 10
		for i := range 50_000 {
			a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			b.Verified(b.now, a, google)
			time.Sleep(seconds * time.Second / 50_000)
		}
		st, n := b.Stats(), b.zone.queries.Load()-asked
		if st.Unverified > maxEntries || st.Known != 1 || st.Dropped == 0 {
			t.Errorf("%+v", st)
		}
		if n > 20*(seconds+1) { // as the documents say
			t.Errorf("%d queries in %d s", n, seconds)
		}
	})
}

// silent answers addresses of IPv4 only.
type silent struct{ *net.Resolver }

func (silent) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	if netip.MustParseAddr(addr).Is6() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []string{"crawl.googlebot.com."}, nil
}

func (silent) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("66.249.66.1")}, nil
}

// Networks whose servers do not answer delay the crawlers of others by seconds.
func TestVerifier_SilentNetworksDelayNoOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		attack func(a *[16]byte, n int)
		within time.Duration
	}{
		{"one /64", func(a *[16]byte, n int) { binary.BigEndian.PutUint32(a[12:], uint32(n)) }, time.Second},
		{"/48s of one /32", func(a *[16]byte, n int) { a[4], a[5] = byte(n>>8), byte(n) }, 15 * time.Second},
		{"/48s of four /32", func(a *[16]byte, n int) {
			a[3], a[4], a[5] = byte(n%4), byte(n>>8), byte(n)
		}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := New(silent{}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- v.Run(ctx) }()
				for n := range 1000 {
					a := netip.MustParseAddr("2001:db8::1").As16()
					c.attack(&a, n)
					v.Verified(time.Now(), netip.AddrFrom16(a), google)
					time.Sleep(100 * time.Millisecond)
				}
				crawler, asked := netip.MustParseAddr("66.249.66.1"), time.Now()
				for !v.Verified(time.Now(), crawler, google) && time.Since(asked) < time.Hour {
					time.Sleep(time.Second)
				}
				if took := time.Since(asked); took > c.within {
					t.Errorf("the crawler was verified after %v: %+v", took, v.Stats())
				}
				cancel()
				if err := <-ended; err != nil || len(v.open) > queued {
					t.Errorf("%v, %d networks", err, len(v.open))
				}
			})
		})
	}
}

// TestMain makes package net read its configuration outside of the bubbles, because its cached configuration is shared
// by all of them.
func TestMain(m *testing.M) {
	none := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, net.ErrClosed
	}}
	_, _ = none.LookupAddr(context.Background(), "192.0.2.1")
	goleak.VerifyTestMain(m)
}
