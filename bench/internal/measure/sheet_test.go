package measure

import (
	"strings"
	"testing"
)

func TestSheetComparesRoundByRound(t *testing.T) {
	t.Parallel()
	s := NewSheet(Lower, "ns", "allocs")
	s.Add("a", "peer", 300, 10) // questions are grouped, in any order of answers
	s.Add("b", Ours, 7, 0)
	for _, ns := range []float64{100, 50, 400} {
		s.Add("a", Ours, ns, 0.0001)
	}
	s.Add("a", "peer", 200, 10)
	s.Add("a", "peer", 400, 10)
	s.Add("a", "(nothing)", 1, 0)
	var b strings.Builder
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `| what | who | ns | allocs | ours is better |
|---|---|---|---|---|
| a | peer | 300 (200-400) | 10 | 3 x |
| a | hotparam | 100 (50-400) | 0 |  |
| a | (nothing) | 1 | 0 |  |
| b | hotparam | 7 | 0 |  |

`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for want, values := range map[float64][]float64{0: nil, 2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		if got := Median(values); got != want {
			t.Errorf("%v: got %v, want %v", values, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0", 0.0001: "0", 0.004: "0.004", 0.25: "0.25", 5: "5", 12.34: "12.3",
		1234.5: "1234"} {
		if got := Number(x); got != want {
			t.Errorf("%v: got %s, want %s", x, got, want)
		}
	}
}

func TestReport_SavesAllRoundsAndLosesNone(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), NewSheet(Higher, "k/s")
	s.Add("a", Ours, 2)
	s.Add("a", Ours, 3)
	s.Add("a", "peer", 1)
	s.Add("a", "peer", 1)
	saved := &Report{Name: "one", Commit: "abc", Sheets: []*Sheet{s}}
	if err := saved.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := LoadReport(dir, "one")
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Sheets[0]; got.Commit != "abc" || r.Ratio(r.Rows[1]) != 2.5 || len(r.Rows[0].Rounds) != 2 {
		t.Errorf("got %+v with a ratio of %v", got, r.Ratio(r.Rows[1]))
	}
	without := NewSheet(Higher, "k/s")
	without.Add("a", Ours, 9)
	err = (&Report{Name: "one", Sheets: []*Sheet{without}}).Save(dir)
	if err == nil || !strings.Contains(err.Error(), "a, peer") {
		t.Errorf("without the peer: got %v, want an error that names its row", err)
	}
}
