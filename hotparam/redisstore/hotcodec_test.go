package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam"
)

// anyHot draws hot keys with any bytes in key and rule.
func anyHot(t *rapid.T) hotparam.Hot {
	text := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 40), func(b []byte) string { return string(b) }),
		rapid.StringMatching(`[\\tn\t\n]{1,8}`),
		rapid.StringMatching(`topic\?id=[0-9]{1,6}`),
	)
	stamp := rapid.Custom(func(t *rapid.T) time.Time {
		us := rapid.Int64Range(-1<<50, 1<<52).Draw(t, "us")
		if us == 0 {
			return time.Time{}
		}
		return time.UnixMicro(us).UTC()
	})
	return hotparam.Hot{
		Key:   hotparam.Key(text.Draw(t, "key")),
		Rule:  text.Draw(t, "rule"),
		Rate:  rapid.Float64().Draw(t, "rate"),
		Peak:  rapid.Float64().Draw(t, "peak"),
		Since: stamp.Draw(t, "since"),
		Until: stamp.Draw(t, "until"),
	}
}

func TestSetComesOutAsItWentIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.Custom(anyHot), 0, 400).Draw(t, "keys")
		text, err := appendSet(nil, keys)
		if err != nil {
			t.Fatal(err)
		}
		packed, encoding, err := pack(text)
		if err != nil {
			t.Fatal(err)
		}
		body, err := unpack(string(packed), encoding)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseSet(body)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(keys) || len(keys) > 0 && !cmp.Equal(got, keys) {
			t.Fatal(cmp.Diff(got, keys))
		}
	})
}

func TestReadersPassOverFieldsTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	got, err := parseSet("k\tr\t1\t2\t3\t4\tclients=7\tmore\n")
	want := []hotparam.Hot{{Key: "k", Rule: "r", Rate: 1, Peak: 2, Since: time.UnixMicro(3).UTC(), Until: time.UnixMicro(4).UTC()}}
	if err != nil || !cmp.Equal(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestBrokenSetsSayWhere(t *testing.T) {
	t.Parallel()
	good := "k\tr\t1\t2\t3\t4\n"
	for _, c := range []struct{ body, want string }{
		{good + "k\tr\t1\t2\t3\t4", "line 2: no newline"},
		{good + good + "k\tr\t1\n", "line 3: 3 fields"},
		{"\tr\t1\t2\t3\t4\n", "line 1: empty key"},
		{"k\tr\tNaN\t2\t3\t4\n", `rate "NaN"`},
		{"k\tr\t1\t1e999\t3\t4\n", `rate "1e999"`},
		{"k\tr\t1\t2\t\t4\n", `time ""`},
		{"k\tr\t1\t2\t3\t4.5\n", `time "4.5"`},
		{"\n", "line 1: 1 fields"},
	} {
		if _, err := parseSet(c.body); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("parseSet(%q): %v; want %q", c.body, err, c.want)
		}
	}
	for _, c := range []struct{ body, encoding, want string }{
		{good, "hotset9", `encoding "hotset9"`},
		{good, encodingGzip, "gzip: invalid header"},
	} {
		if _, err := unpack(c.body, c.encoding); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("unpack(%q): %v; want %q", c.encoding, err, c.want)
		}
	}
}

func TestGzipBombIsRefused(t *testing.T) {
	t.Parallel()
	packed, encoding, err := pack(make([]byte, bodyMax+1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(string(packed), encoding); err == nil || !strings.Contains(err.Error(), "unpacked") {
		t.Fatalf("%d bytes unpack to too many, and the error is %v", len(packed), err)
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add("topic?id=42\ttopic\t200.4\t300\t1\t2\n")
	f.Add("a\\tb\\\\\t\\n\t-1\t0\t0\t-5\textra\n")
	f.Fuzz(func(t *testing.T, body string) {
		keys, err := parseSet(body)
		if err != nil {
			return
		}
		text, err := appendSet(nil, keys)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseSet(string(text))
		if err != nil || !cmp.Equal(again, keys) {
			t.Fatalf("%v\n%s", err, cmp.Diff(again, keys))
		}
	})
}

func BenchmarkSet10k(b *testing.B) {
	set := varied(now(), 10_000)
	text, err := appendSet(nil, set.Keys)
	if err != nil {
		b.Fatal(err)
	}
	packed, encoding, err := pack(text)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			text, _ = appendSet(text[:0], set.Keys)
			_, _, _ = pack(text)
		}
		b.ReportMetric(float64(len(text)), "text-bytes")
		b.ReportMetric(float64(len(packed)), "packed-bytes")
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body, _ := unpack(string(packed), encoding)
			_, _ = parseSet(body)
		}
	})
}
