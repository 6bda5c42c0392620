package statsd

import (
	"math"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The lines that docs/protocol.md promises, and lines of other senders.
func TestParseValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		kind kind
		want float64
	}{
		{"1|c", counter, 1},
		{"0|c", counter, 0},
		{"1099511627776|c", counter, hottype.MaxCount},
		{"1:2|c", counter, 3},
		{"1:2:3|c", counter, 6},
		{"1.5|c", counter, 1.5},
		{"1e3|c", counter, 1000},
		{"25E-1|c", counter, 2.5},
		{"+7|c", counter, 7},
		{"1|c|@0.1", counter, 10},
		{"1|c|@1e-1", counter, 10},
		{"1:1|c|@0.5", counter, 4},
		{"3|c|@1", counter, 3},
		{"3|c|#a:b,c", counter, 3},
		{"3|c|#", counter, 3},
		{"3|c|@0.5|#a:b|c:in-abc|T1656581400", counter, 6},
		{"3|c|#a|@0.5", counter, 6},
		{"3|c|c:ci-1|e:it-false,cn-x|card:low", counter, 3},
		{"000000000000000000001|c", counter, 1},

		{"0badf00d|s", setMember, 0},
		{"user:1:2|s|#x", setMember, 0},

		{"1|g", ignoredType, 0},
		{"-1|g", ignoredType, 0},
		{"nonsense|ms", ignoredType, 0},
		{"1|h|@0.5", ignoredType, 0},
		{"1|d|#x", ignoredType, 0},
		{"1:2:3|d|@0.1", ignoredType, 0},
		{"1|m", ignoredType, 0},
		{"1|set", ignoredType, 0},
	} {
		if v := parseValue([]byte(c.in), hottype.MaxCount); v.kind != c.kind || v.kind == counter && v.total != c.want {
			t.Errorf("%q: got %+v, want %v kind %d", c.in, v, c.want, c.kind)
		}
	}
}

func TestParseValue_RejectsMalformedValues(t *testing.T) {
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
		"NaN|c",
		"inf|c",
		"+Inf|c",
		"infinity|c",
		"0x10|c",
		"0x1p-2|c",
		"1_000|c",
		"1e999|c",
		"1e300:1|c",
		"1e|c",
		" 1|c",
		"1 |c",
		"1|c|@0",
		"1|c|@0.0",
		"1|c|@1.1",
		"1|c|@-1",
		"1|c|@nan",
		"1|c|@0x1",
		"1|c|@",
		"1|c|@1e-300", // the total is over the bound
		"1|c|@0.5|@0.5",
		"1|c|T",
		"1|c|T-5",
		"1|c|T1.5",
		"1|c|T1|T1",
		"1|c|T1234567890123456789",
		"00000000000000000000000000000000000000001|c",
		"1099511627777|c", "12345678901234567|c", // over 2^40
	} {
		if v := parseValue([]byte(in), hottype.MaxCount); v.kind != malformed {
			t.Errorf("%q: got %+v", in, v)
		}
	}
}

func FuzzParseValue(f *testing.F) {
	for _, s := range []string{"1|c", "1:2|c|@0.1|#a", "1e5|c", "-1|g", "|||", "@:#", "1|c|T1656581400", "x|s"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := parseValue(b, hottype.MaxCount)
		if v.kind == counter && (math.IsNaN(v.total) || v.total < 0 || v.total > hottype.MaxCount || v.second < 0) {
			t.Fatalf("%q: %+v", b, v)
		}
	})
}
