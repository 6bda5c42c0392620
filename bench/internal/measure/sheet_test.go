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
