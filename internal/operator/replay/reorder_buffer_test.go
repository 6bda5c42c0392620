package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

func entryAt(second int64, nanos int32, target string) *accesslog.Entry {
	return &accesslog.Entry{Second: second, Nanos: nanos, Request: hottype.Request{Method: "GET", Target: target}}
}

func TestReadRecord_InvertsAppendRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		client := rapid.OneOf(
			rapid.Just(hottype.Client{}),
			rapid.Map(text, func(s string) hottype.Client { return hottype.Client{Name: s} }),
			rapid.Map(rapid.Uint32(), func(n uint32) hottype.Client {
				return hottype.ClientFromAddr(
					netip.AddrFrom4([4]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}),
				)
			}),
			rapid.Map(rapid.Byte(), func(n byte) hottype.Client {
				return hottype.ClientFromAddr(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, n}))
			}),
		)
		e := accesslog.Entry{Request: hottype.Request{
			Client: client.Draw(t, "client"), Method: text.Draw(t, "method"),
			Host: text.Draw(t, "host"), Target: text.Draw(t, "target"),
		}}
		want := accesslog.Header{UserAgent: text.Draw(t, "agent"), Referer: text.Draw(t, "referer")}
		var (
			got    hottype.Request
			header accesslog.Header
		)
		readRecord(string(appendRecord(nil, &e, &want))[recordHead:], &got, &header)
		if got != e.Request || header != want {
			t.Fatalf("got %+v %+v, want %+v %+v", got, header, e.Request, want)
		}
	})
}

// draw returns the targets of one second and their nanoseconds, in order.
func draw(b *bucket) (targets []string, nanos []int64) {
	records := string(b.records)
	for _, m := range orderSecond(records, nil) {
		var (
			r hottype.Request
			h accesslog.Header
		)
		readRecord(records[m.from:m.to], &r, &h)
		targets, nanos = append(targets, r.Target), append(nanos, m.nanos)
	}
	return targets, nanos
}

func bucketOf(entries []*accesslog.Entry) *bucket {
	o := newOrder(1 << 20)
	for _, e := range entries {
		o.add(e, &accesslog.Header{})
	}
	return o.next(entries[0].Second + 1)
}

func TestOrderSecond_DoesNotDependOnOrderOfLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) *accesslog.Entry {
			return entryAt(7, rapid.SampledFrom([]int32{0, 0, 0, 5}).Draw(t, "nanos"),
				rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(t, "target"))
		})
		entries := rapid.SliceOfN(one, 1, 30).Draw(t, "entries")
		targets, nanos := draw(bucketOf(entries))
		again, sameNanos := draw(bucketOf(rapid.Permutation(entries).Draw(t, "permuted")))
		if !slices.Equal(targets, again) || !slices.Equal(nanos, sameNanos) {
			t.Fatalf("%q at %v, permuted %q at %v", targets, nanos, again, sameNanos)
		}
	})
}

func TestOrderSecond_SpreadsEvenly(t *testing.T) {
	t.Parallel()
	var entries []*accesslog.Entry
	for i := range 200 {
		entries = append(entries, entryAt(7, 0, []string{"/a", "/b"}[i/100]))
	}
	targets, nanos := draw(bucketOf(entries))
	firstHalf := 0
	for i, target := range targets {
		if nanos[i] != int64(i)*5_000_000 {
			t.Fatalf("request %d at %d ns", i, nanos[i])
		}
		if i < 100 && target == "/a" {
			firstHalf++
		}
	}
	if firstHalf < 30 || firstHalf > 70 {
		t.Errorf("%d of 100 requests for one target are in the first half of the second", firstHalf)
	}
}

func TestOrderSecond_KeepsFinerTimes(t *testing.T) {
	t.Parallel()
	targets, nanos := draw(bucketOf([]*accesslog.Entry{entryAt(7, 900, "/a"), entryAt(7, 0, "/b"),
		entryAt(7, 30, "/c")}))
	if diff := cmp.Diff([]string{"/b", "/c", "/a"}, targets); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{0, 30, 900}, nanos); diff != "" {
		t.Error(diff)
	}
}

// A few lines from a clock in the future make nothing late; many do.
func TestSourceWatermark_BearsBrokenClocks(t *testing.T) {
	t.Parallel()
	var p sourceWatermark
	for i := range int64(100) {
		p.add(1000 + i)
		if i%10 == 0 {
			p.add(1 << 40)
		}
	}
	if got := p.reachedSecond(); got < 1080 || got > 1099 {
		t.Errorf("position is %d after seconds 1000 to 1099 and ten of 2^40", got)
	}
	for range 16 {
		p.add(1 << 40)
	}
	if got := p.reachedSecond(); got != 1<<40 {
		t.Errorf("position is %d, want 2^40", got)
	}
}

func TestOrder_SortsSecondsAndCountsLate(t *testing.T) {
	t.Parallel()
	o := newOrder(1 << 20)
	for _, s := range []int64{30, 10, 20, 10} {
		o.add(entryAt(s, 0, "/"), &accesslog.Header{})
	}
	type out struct {
		second int64
		n      int
	}
	var got []out
	for b := o.next(25); b != nil; b = o.next(25) {
		got = append(got, out{b.second, b.n})
	}
	if want := []out{{10, 2}, {20, 1}}; !slices.Equal(got, want) {
		t.Errorf("before 25: %v, want %v", got, want)
	}
	o.add(entryAt(20, 0, "/"), &accesslog.Header{})
	o.add(entryAt(21, 0, "/"), &accesslog.Header{})
	if o.late != 1 || o.early != 0 {
		t.Errorf("late %d, early %d, want 1 and 0", o.late, o.early)
	}
}

// A bucket that is used again has only the requests of its new second, and strings that were read from its old second
// do not change.
func TestRecycleBucket_KeepsReadStrings(t *testing.T) {
	t.Parallel()
	o := newOrder(1 << 20)
	var all, want []string
	for s := range int64(100) {
		target := fmt.Sprint("/", s)
		o.add(entryAt(s, 0, target), &accesslog.Header{})
		b := o.next(s + 1)
		targets, _ := draw(b)
		all, want = append(all, targets...), append(want, target)
		o.recycleBucket(b)
	}
	if !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
}

func TestOrder_IsBoundedInBytes(t *testing.T) {
	t.Parallel()
	o := newOrder(10 * bucketSize)
	for s := range int64(100) {
		o.add(entryAt(s, 0, "/"), &accesslog.Header{})
		for o.next(-1) != nil {
		}
		if o.size > o.maxSize {
			t.Fatalf("holds %d bytes, more than %d", o.size, o.maxSize)
		}
	}
	if o.early < 90 || o.late != 0 {
		t.Errorf("early %d, late %d", o.early, o.late)
	}
}
