package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/bench/internal/counters"
	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/trace"
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

// The program that prints the truth agrees with a count that begins again for each tick.
func TestExact_CountsEachWindowAgain(t *testing.T) {
	t.Parallel()
	exact, err := buildExact()
	if err != nil {
		t.Fatal(err)
	}
	defer exact.remove()
	tr := trace.Clocked("t", "", trace.Zipfian(3000, 5), 200, true, 5)
	tr.Hot = 20
	known, err := exact.count(tr)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(truthOf(tr), known); diff != "" {
		t.Error(diff)
	}
	source, err := os.ReadFile("exact/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func main() {")
	if n := strings.Count(body, "\n"); n > 20 {
		t.Errorf("the function has %d lines: everybody must be able to check it", n)
	}
}

// truthOf counts the requests of each window again.
func truthOf(t *trace.Trace) truth {
	known := make(truth, t.Ends()/trace.Tick)
	for i := range known {
		known[i] = map[string]int{}
		now, counts := int32(i+1)*trace.Tick, map[string]int{}
		for _, r := range t.Requests {
			if r.At >= now-trace.Window && r.At < now {
				counts[t.Keys[r.Key]]++
			}
		}
		for key, n := range counts {
			if n >= t.Hot {
				known[i][key] = n
			}
		}
	}
	return known
}

func TestReadTruth_RejectsOtherLines(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"100 a\n", "100 a b\n", "0 a 5\n", "300 a 5\n"} {
		if known, err := readTruth(strings.NewReader(text), 2); err == nil {
			t.Errorf("%q: %v", text, known)
		}
	}
}

// planted is a contender that is wrong on purpose: it changes the answers of the exact count.
type planted struct {
	counters.Counter
	change func(now int64, all []counters.Count) []counters.Count
}

func (p planted) Hot(now int64, to []counters.Count) []counters.Count {
	return p.change(now, p.Counter.Hot(now, to))
}

// Three keys become hot one after the other, with different counts.
func plantedTrace() *trace.Trace {
	tr := &trace.Trace{Keys: []string{"a", "b", "c"}, Hot: 100}
	for at := range int32(12_000) {
		for k := range uint32(3) {
			if since := at - int32(k)*1000; since >= 0 && since%int32(10*(k+1)) == 0 {
				tr.Requests = append(tr.Requests, trace.Request{At: at, Key: k})
			}
		}
	}
	return tr
}

func TestJudge_MarksWrongContendersDown(t *testing.T) {
	t.Parallel()
	tr := plantedTrace()
	known := truthOf(tr)
	score := func(change func(int64, []counters.Count) []counters.Count) score {
		exact := counters.NewExact(counters.Config{Hot: tr.Hot})
		return scoreTrace(requestsOf(tr), known, tr.Hot, planted{exact, change})
	}
	perfect := score(func(_ int64, all []counters.Count) []counters.Count { return all })
	if want := (scoreOf{1, 1, 1, 0, 1, 0, 0, 0, 0}); perfect.figures() != want || perfect.Episodes != 3 {
		t.Errorf("the exact count: %+v", perfect)
	}
	for name, planted := range map[string]struct {
		change func(int64, []counters.Count) []counters.Count
		want   scoreOf // NaN: not compared
	}{
		"says nothing": {
			func(int64, []counters.Count) []counters.Count { return nil },
			scoreOf{0, 1, math.NaN(), math.NaN(), 0, 1, 0, 0, 0}},
		"says that all is hot": {
			func(int64, []counters.Count) []counters.Count {
				return []counters.Count{{Key: "a"}, {Key: "b"}, {Key: "z"}}
			},
			scoreOf{math.NaN(), math.NaN(), math.NaN(), math.NaN(), 2. / 3, 1. / 3, 0, 0, 3}},
		"is a second late": {
			func() func(int64, []counters.Count) []counters.Count {
				first := map[string]int64{}
				return func(now int64, all []counters.Count) (late []counters.Count) {
					for _, c := range all {
						if first[c.Key] == 0 {
							first[c.Key] = now
						}
						if now-first[c.Key] >= 1000 {
							late = append(late, c)
						}
					}
					return late
				}
			}(),
			scoreOf{math.NaN(), 1, math.NaN(), math.NaN(), 0, 0, 1000, 1000, 0}},
		"counts double": {
			func(_ int64, all []counters.Count) []counters.Count {
				for i := range all {
					all[i].N *= 2
				}
				return all
			},
			scoreOf{1, 1, 1, 1, 1, 0, 0, 0, 0}},
		"orders the reverse": {
			func(_ int64, all []counters.Count) []counters.Count {
				for i := range all {
					all[i].N = 1000 - all[i].N
				}
				return all
			},
			scoreOf{1, 1, -1, math.NaN(), 1, 0, 0, 0, 0}},
	} {
		got := score(planted.change).figures()
		for i, want := range planted.want {
			if !math.IsNaN(want) && math.Abs(got[i]-want) > 1e-9 {
				t.Errorf("a contender that %s: figure %d is %v, want %v; %v", name, i, got[i], want, got)
			}
		}
	}
}

// scoreOf holds recall, precision, order, error, at once, missed, median and longest delay, and false alarms.
type scoreOf [9]float64

func (s score) figures() scoreOf {
	return scoreOf{s.Recall, s.Precision, s.Order, s.Error, s.AtOnce, s.Missed, float64(s.Half), float64(s.Most),
		float64(s.Alarms)}
}

func TestKendall_IsSymmetricAndKnowsOrders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 30}, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 4, 3}, 4. / 6},
		{[]float64{1, 1, 2}, []float64{1, 2, 3}, 2 / math.Sqrt(6)},
		{[]float64{0, 0, 0}, []float64{1, 2, 3}, 0},
	} {
		if got := kendall(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v, %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		numbers := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 5), func(n int) float64 { return float64(n) }), n, n)
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		if x, y := kendall(a, b), kendall(b, a); x != y || math.Abs(x) > 1+1e-12 || kendall(a, a) < 1-1e-12 {
			t.Fatalf("%v, %v", x, y)
		}
	})
}

// Each attack hurts the contender that it is made for, and neither the exact count nor the detector.
func TestAttacks_HurtTheContenderTheyAreFor(t *testing.T) {
	t.Parallel()
	for _, attack := range []struct {
		trace *trace.Trace
		on    string
		hurts func(score) bool
	}{
		{trace.AgainstSpaceSaving(1), "Space-Saving",
			func(s score) bool { return s.Precision < 0.5 && s.Alarms >= 20 }},
		{trace.AgainstCountMin(counters.CountMinRows, counters.CountMinCell, 1), "count-min",
			func(s score) bool { return s.Precision < 0.5 && s.Alarms >= 20 }},
		{trace.AgainstHeavyKeeper(counters.HeavyKeeperRows, counters.HeavyKeeperCell(budget), 1), "HeavyKeeper",
			func(s score) bool { return s.Recall < 0.8 && s.Missed > 0.4 }},
		{trace.AgainstSampling(1), "sampled", func(s score) bool { return s.Recall < 0.7 && s.Missed > 0.7 }},
	} {
		t.Run(attack.trace.Name, func(t *testing.T) {
			t.Parallel()
			requests := requestsOf(attack.trace)
			known := exactTruth(attack.trace, requests)
			for _, c := range counters.Contenders() {
				got := scoreTrace(requests, known, attack.trace.Hot, c.New(configOf(attack.trace, budget, 1)))
				hurt := attack.hurts(got)
				if c.Name == attack.on && !hurt || (c.Name == "hotparam" || c.Name == "exact") && hurt {
					t.Errorf("%s: %+v", c.Name, got)
				}
			}
		})
	}
}

// exactTruth takes the exact contender for the truth: its own test compares it with counting again.
func exactTruth(t *trace.Trace, requests []counters.Request) truth {
	known, c := make(truth, t.Ends()/trace.Tick), counters.NewExact(counters.Config{Hot: t.Hot})
	for i := range known {
		now := int64(i+1) * trace.Tick
		n := before(requests, now)
		c.Add(requests[:n])
		requests = requests[n:]
		known[i] = map[string]int{}
		for _, k := range c.Hot(now, nil) {
			known[i][k.Key] = int(k.N)
		}
	}
	return known
}

// A trace that was written and read again is scored alike.
func TestReadTrace_ReadsAFileOfOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.txt")
	tr := plantedTrace()
	if err := writeTrace(file, tr); err != nil {
		t.Fatal(err)
	}
	read, err := readTrace(file, 100)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(truthOf(tr), truthOf(read)); diff != "" || read.Name != "mine.txt" {
		t.Error(read.Name, diff)
	}
	if _, err := readTrace(file+".none", 100); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.WriteFile(file, []byte("no trace\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readTrace(file, 100); err == nil {
		t.Errorf("%s was read", file)
	}
}
