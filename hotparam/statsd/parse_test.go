package statsd

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam"
)

func TestParseValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		kind kind
		want float64
	}{
		{"1|c", counter, 1},
		{"0|c", counter, 0},
		{"9007199254740992|c", counter, 1 << 53},
		{"1:2:3|c", counter, 6},
		{"1.5|c", counter, 1.5},
		{"1e3|c", counter, 1000},
		{"25E-1|c", counter, 2.5},
		{"+7|c", counter, 7},
		{"1|c|@0.1", counter, 10},
		{"1:1|c|@0.5", counter, 4},
		{"3|c|@1", counter, 3},
		{"3|c|#a:b,c", counter, 3},
		{"3|c|@0.5|#a:b|c:in-abc|T1656581400", counter, 6},
		{"3|c|#a|@0.5", counter, 6},
		{"000000000000000000001|c", counter, 1},

		{"1|g", otherType, 0},
		{"-1|g", otherType, 0},
		{"nonsense|ms", otherType, 0},
		{"1|h|@0.5", otherType, 0},
		{"user|s", otherType, 0},
		{"1|d|#x", otherType, 0},
		{"1|set", otherType, 0},
	} {
		got, k := parseValue([]byte(c.in))
		if k != c.kind || k == counter && got != c.want {
			t.Errorf("%q: got %v kind %d, want %v kind %d", c.in, got, k, c.want, c.kind)
		}
	}
}

func TestMalformedValues(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"",
		"1",
		"|c",
		"1|",
		"1|c|",
		"1:|c",
		":1|c",
		"1|zz",
		"1|C",
		"-1|c",
		"-0|c",
		"1:-1|c",
		"nan|c",
		"inf|c",
		"+Inf|c",
		"0x10|c",
		"1_000|c",
		"1e999|c",
		"1e300:1|c",
		"1e|c",
		" 1|c",
		"1|c|@0",
		"1|c|@1.1",
		"1|c|@-1",
		"1|c|@nan",
		"1|c|@",
		"1|c|@1e-300", // the total is over the bound
		"1|c|@0.5|@0.5",
		"00000000000000000000000000000000000000001|c",
		"12345678901234567|c", // over 2^53
	} {
		if got, k := parseValue([]byte(in)); k != malformed {
			t.Errorf("%q: got %v kind %d", in, got, k)
		}
	}
}

func FuzzParseValue(f *testing.F) {
	for _, s := range []string{"1|c", "1:2|c|@0.1|#a", "1e5|c", "-1|g", "|||", "@:#"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, k := parseValue(b)
		if k == counter && (math.IsNaN(n) || n < 0 || n > maxTotal) {
			t.Fatalf("%q: %v", b, n)
		}
	})
}

// Fractions are carried: a key's total is never off by more than one, however
// the lines fall into flushes.
func TestBatchTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBatch(10)
		i := b.learn([]byte("m"), "k?id=1")
		var want float64
		var got int64
		take := func(counts []hotparam.Count) {
			for _, c := range counts {
				got += c.N
			}
		}
		for range rapid.IntRange(1, 300).Draw(t, "lines") {
			n := 1 / rapid.Float64Range(0.01, 1).Draw(t, "rate")
			b.add(i, n)
			want += n
			if rapid.Bool().Draw(t, "flush") {
				take(b.take())
			}
		}
		take(b.take())
		take(b.forget())
		if math.Abs(want-float64(got)) > 0.5+1e-3 {
			t.Fatalf("handed over %d, counted %v", got, want)
		}
	})
}
