package trace

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ulikunitz/xz"
)

// shortTraces returns the first seconds of each trace that is made, and short ones of the generators.
func shortTraces(seed uint64) (all []*Trace) {
	cell := func(row int, key string) uint64 { return uint64(len(key)+row) % 2 }
	for _, s := range []shape{flashCrowd(), rotatingSet(), slowBurn(), uniqueFlood(), againstSpaceSaving(),
		againstCountMin(2, cell), againstHeavyKeeper(2, cell), againstSampling()} {
		s.seconds, s.perSecond = 8, s.perSecond/10
		all = append(all, s.make(seed))
	}
	return append(all, Clocked("steady", "no clock", Zipfian(20_000, seed), 5000, false, seed),
		Clocked("bursts", "no clock", Latest(20_000, 1000, seed), 5000, true, seed),
		Clocked("hotspot", "no clock", Hotspot(20_000, seed), 5000, true, seed))
}

func TestTrace_IsMadeFromItsSeed(t *testing.T) {
	t.Parallel()
	again, other := shortTraces(1), shortTraces(2)
	for i, tr := range shortTraces(1) {
		if !slices.Equal(tr.Requests, again[i].Requests) || slices.Equal(tr.Requests, other[i].Requests) {
			t.Errorf("%s: the requests do not follow from the seed alone", tr.Name)
		}
		if !slices.IsSortedFunc(tr.Requests, func(a, b Request) int { return int(a.At - b.At) }) {
			t.Errorf("%s: time steps back", tr.Name)
		}
		if tr.Hot < 50 || tr.About == "" {
			t.Errorf("%s is hot from %d on: %q", tr.Name, tr.Hot, tr.About)
		}
	}
}

func TestRead_ReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, tr := range shortTraces(1) {
		var first, second bytes.Buffer
		if err := tr.Write(&first); err != nil {
			t.Fatal(err)
		}
		read, err := Read(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if len(read.Requests) != len(tr.Requests) || read.Ends() != tr.Ends() || read.Peak() != tr.Peak() {
			t.Errorf("%s: %d requests to %d, of %d to %d", tr.Name, len(read.Requests), read.Ends(), len(tr.Requests),
				tr.Ends())
		}
		for i, r := range read.Requests {
			if r.At != tr.Requests[i].At || read.Keys[r.Key] != tr.Keys[tr.Requests[i].Key] {
				t.Fatalf("%s: request %d differs", tr.Name, i)
			}
		}
		if err := read.Write(&second); err != nil {
			t.Fatal(err)
		}
		if head, _, _ := strings.Cut(first.String(), "\n"); len(strings.Fields(head)) != 3 {
			t.Errorf("%s: %q", tr.Name, head)
		}
	}
}

func TestRead_NamesTheBadLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1 a c\nx b c\n":    `trace: line 2 is "x b c", not: time key client`,
		"1 a\n":             `trace: line 1 is "1 a", not: time key client`,
		"1 a c d\n":         `trace: line 1 is "1 a c d", not: time key client`,
		"5 a c\n4 a c\n":    "trace: line 2 is of 4 ms, before the line above",
		"99999999999 a c\n": `trace: line 1 is "99999999999 a c", not: time key client`,
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A clock with bursts has the rate of the steady clock on average, but not in each second.
func TestClocked_KeepsItsRate(t *testing.T) {
	t.Parallel()
	const n, perSecond = 400_000, 2000
	for _, bursts := range []bool{false, true} {
		tr := Clocked("clock", "", make([]int64, n), perSecond, bursts, 3)
		seconds := make([]int, tr.Ends()/1000+1)
		for _, r := range tr.Requests {
			seconds[r.At/1000]++
		}
		seconds = seconds[:len(seconds)-1]
		mean := float64(n) / float64(len(seconds))
		if mean < 0.8*perSecond || mean > 1.2*perSecond {
			t.Errorf("bursts %v: %v a second", bursts, mean)
		}
		if most := slices.Max(seconds); (most > 2*perSecond) != bursts {
			t.Errorf("bursts %v: up to %d a second", bursts, most)
		}
	}
}

func TestPeak_CountsAWindowAndATick(t *testing.T) {
	t.Parallel()
	tr := &Trace{}
	for _, at := range []int32{0, 50, 5100, 5101, 5150, 20_000} {
		tr.Requests = append(tr.Requests, Request{At: at})
	}
	if got := tr.Peak(); got != 4 { // 50 to 5150
		t.Errorf("peak %d", got)
	}
}

// The generators of YCSB have the popularity in their documentation.
func TestGenerators_HaveTheirPopularity(t *testing.T) {
	t.Parallel()
	const n = 200_000
	share := func(numbers []int64, from, to int64) float64 {
		in := 0
		for _, k := range numbers {
			if k >= from && k < to {
				in++
			}
		}
		return float64(in) / n
	}
	got := []float64{
		share(Zipfian(n, 1), 0, 1),                       // 1 / the sum of i^-0.99 to a million
		share(Hotspot(n, 1), 0, 100),                     // 80 %
		share(Latest(n, n, 1), ycsbItems-9, ycsbItems+2), // the eleven newest
	}
	want := []float64{0.065, 0.8, 0.2}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 0.01 && b-a < 0.01 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Error(diff)
	}
}

// The jar holds a trace as packed integers, most significant byte first.
func TestCache2k_ReadsTheJar(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "simulator.jar")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	jar := zip.NewWriter(out)
	entry, _ := jar.Create("com/github/benmanes/caffeine/cache/simulator/parser/cache2k/web07.trace.xz")
	packed, err := xz.NewWriter(entry)
	if err != nil {
		t.Fatal(err)
	}
	want := []int64{0, 1, 0, 20_000}
	for _, n := range want {
		if err := binary.Write(packed, binary.BigEndian, int32(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(packed.Close(), jar.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := Cache2k(file, "web07"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for file, name := range map[string]string{file: "web12", file + ".none": "web07"} {
		if _, err := Cache2k(file, name); err == nil {
			t.Errorf("%s in %s was read", name, file)
		}
	}
}
