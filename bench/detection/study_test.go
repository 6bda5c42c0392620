package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// The page and the pictures equal the files that the present code makes of the results.
func TestPageAndPicturesFitTheResults(t *testing.T) {
	t.Parallel()
	r, err := measure.LoadResults[results](".")
	if err != nil {
		t.Fatal(err)
	}
	files, err := render(".", r)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range measure.CheckFiles(files) {
		t.Error(err)
	}
}

// If counters are enough, the findings do not depend on the hash's seed, which differs in each detector. If they are
// not, errors differ but the promises hold, which measureAccuracy checks itself.
func TestDetector_FindsTheSameTwice(t *testing.T) {
	t.Parallel()
	for _, s := range streams(3, 0.05) {
		if s.keys > 2_000_000 {
			continue // needs too much memory for a test
		}
		s.seconds = 12
		for _, size := range []int{256, 1 << 17} {
			first, err := measureAccuracy(s, size)
			if err != nil {
				t.Fatal(err)
			}
			second, err := measureAccuracy(s, size)
			if err != nil {
				t.Fatal(err)
			}
			if first.Precision != 1 || second.Precision != 1 || (size == 256) != (first.Said > 0) {
				t.Errorf("%+v", first)
			}
			if diff := cmp.Diff(first, second); size > 256 && diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestJudgeSituation_TellsSituationsApart(t *testing.T) {
	t.Parallel()
	want := []string{"hot after 3.4 s", "no", "hot after 0.4 s", "loop after 3.4 s"}
	for _, s := range situations() {
		if s.loop == 299 {
			s.others = 2000
			if diff := cmp.Diff(want, judgeSituation(s).Said); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestZipf_FollowsItsDistribution(t *testing.T) {
	t.Parallel()
	const keys, draws = 50, 200_000
	for _, s := range []float64{0.8, 1, 1.2} {
		z, r := newZipf(s, keys), rand.New(rand.NewPCG(1, 1))
		var seen [keys + 1]float64
		for range draws {
			seen[z.rank(r)]++
		}
		total := 0.0
		for k := 1; k <= keys; k++ {
			total += math.Pow(float64(k), -s)
		}
		for k := 1; k <= keys; k++ {
			want := draws * math.Pow(float64(k), -s) / total
			if math.Abs(seen[k]-want) > 5*math.Sqrt(want) {
				t.Errorf("s %v: rank %d %v times, %v expected", s, k, seen[k], want)
			}
		}
	}
}

// The exact count is the sum over the last seconds.
func TestExact_SumsTheLastSeconds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint32Range(0, 4), 0, 12), 1, 20).Draw(t, "seconds")
		x := newExact(5, 4)
		for s, ids := range seconds {
			if s > 0 {
				x.turn()
			}
			x.add(ids)
			var want [5]int32
			for _, then := range seconds[max(0, s-window+1) : s+1] {
				for _, id := range then {
					want[id]++
				}
			}
			for id, n := range want {
				if x.sums[id] != n || x.over[uint32(id)] != (n >= 4) {
					t.Fatalf("second %d: key %d has %d, %v; want %d", s, id, x.sums[id], x.over[uint32(id)], n)
				}
			}
		}
	})
}
