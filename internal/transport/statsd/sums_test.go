package statsd

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// Fractions are carried: a key's total is never off by more than one, however
// the lines fall into flushes.
func TestSums_KeepTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newSums(10, 1<<20)
		i := b.addName([]byte("m"), "k?id=1")
		var want float64
		var got int64
		take := func(counts []hottype.Count) {
			for _, c := range counts {
				got += c.N
			}
		}
		for range rapid.IntRange(1, 300).Draw(t, "lines") {
			n := 1 / rapid.Float64Range(0.01, 1).Draw(t, "rate")
			if rapid.Bool().Draw(t, "stamped") {
				b.addAt(i, rapid.Int64Range(1, 5).Draw(t, "second"), n)
			} else {
				b.add(i, n)
			}
			want += n
			if rapid.Bool().Draw(t, "flush") {
				take(b.takeCounts())
			}
		}
		take(b.takeCounts())
		take(b.removeNames())
		if math.Abs(want-float64(got)) > 0.5+1e-3 {
			t.Fatalf("handed over %d, counted %v", got, want)
		}
	})
}

func member(t *testing.T, s string) clientsketch.Member {
	t.Helper()
	m, err := clientsketch.ParseMember([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Members wait for their key's count, which may come in a later flush, and go
// with it once.
func TestSums_HandOverMembersWithTheNextCount(t *testing.T) {
	t.Parallel()
	s := newSums(10, 1<<20)
	s.second = 1000
	i := s.addName([]byte("m"), "k")
	for _, text := range []string{"04c0000201=2", "seen=3", "0badf00d"} {
		s.addMember(i, member(t, text))
	}
	if got := s.takeCounts(); len(got) != 0 || s.isEmpty() {
		t.Fatalf("%+v left without a count", got)
	}
	s.add(i, 3)
	got := s.takeCounts()
	if len(got) != 1 || got[0].Clients == nil || got[0].Clients.Attributed != 3 || len(got[0].Clients.Sample) != 1 ||
		len(got[0].Clients.Heavy) != 1 {
		t.Fatalf("got %+v", got)
	}
	s.add(i, 1)
	if got = s.takeCounts(); len(got) != 1 || got[0].Clients != nil || !s.isEmpty() {
		t.Fatalf("then %+v", got)
	}
}

func TestSums_RemoveMembersWithoutACount(t *testing.T) {
	t.Parallel()
	s := newSums(10, 1<<20)
	i := s.addName([]byte("m"), "k")
	s.addMember(i, member(t, "seen=3"))
	for range maxWaits + 1 {
		s.takeCounts()
	}
	s.add(i, 1)
	if got := s.takeCounts(); len(got) != 1 || got[0].Clients != nil {
		t.Errorf("got %+v", got)
	}
}

// For any members, in any order and with any of them missing, a count has a sound client sketch or nil.
func TestSums_ClientSketchesAreSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newSums(10, 1<<20)
		i := s.addName([]byte("m"), "k")
		for range rapid.IntRange(0, 60).Draw(t, "members") {
			n := rapid.SampledFrom([]int64{1, 2, 1 << 30, clientsketch.MaxN}).Draw(t, "n")
			var m clientsketch.Member
			switch rapid.IntRange(0, 2).Draw(t, "says") {
			case 0:
				m.Seen = n
			case 1:
				m.Client, m.N = hottype.ParseClient(
					rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "bot"}).Draw(t, "client")), n
			default:
				m.Hash = rapid.Uint32().Draw(t, "mark")
			}
			s.addMember(i, m)
		}
		s.add(i, 1)
		for _, c := range s.takeCounts() {
			if err := clientsketch.Check(c.Clients); err != nil {
				t.Fatalf("%v: %s", err, cmp.Diff(nil, c.Clients))
			}
		}
	})
}

// Each count keeps the clients that followed it: clients of a count with an earlier second do not take the place of
// clients of a count of this second, in any order of the counts.
func TestSums_KeepClientsInTheirSecond(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int64{{0, 7, 8}, {7, 0, 8}, {8, 7, 0}, {7, 7, 0, 0, 8}} {
		b := newSums(10, 1<<20)
		b.second = 9
		i := b.addName([]byte("m"), "k?id=1")
		want := map[int64]int64{}
		for n, second := range order {
			if second == 0 {
				b.add(i, 1)
				second = 9
			} else {
				b.addAt(i, second, 1)
			}
			b.addMember(i, member(t, fmt.Sprintf("0414%06x=1", n)))
			want[second]++
		}
		for _, c := range b.takeCounts() {
			if c.N != want[c.Second] || c.Clients == nil || int64(len(c.Clients.Heavy)) != c.N {
				t.Errorf("order %v: %d requests in second %d by %+v", order, c.N, c.Second, c.Clients)
			}
			delete(want, c.Second)
		}
		if len(want) > 0 || b.bytes != nameBytes+len("m")+len("k?id=1") {
			t.Errorf("order %v: no counts of %v, %d bytes", order, want, b.bytes)
		}
	}
}
