package rediscontrol

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// anyHot draws hot keys with any bytes in key and rule.
func anyHot(t *rapid.T) hottype.HotKey {
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
	return hottype.HotKey{
		Key:      hottype.Key(text.Draw(t, "key")),
		Rule:     text.Draw(t, "rule"),
		Rate:     rapid.Float64Range(-maxRate, maxRate).Draw(t, "rate"),
		PeakRate: rapid.Float64Range(-maxRate, maxRate).Draw(t, "peak"),
		Since:    stamp.Draw(t, "since"),
		Until:    stamp.Draw(t, "until"),

		Lower: rapid.Float64Range(-maxRate, maxRate).Draw(t, "lower"), Upper: rapid.Float64Range(-maxRate, maxRate).Draw(t, "upper"),
		Share:    rapid.Float64Range(-maxRate, maxRate).Draw(t, "share"),
		Baseline: rapid.Float64Range(-maxRate, maxRate).Draw(t, "baseline"),

		Why:            rapid.SampledFrom([]string{"", "rate", "rate+surge", "a=b\tc"}).Draw(t, "why"),
		Clients:        rapid.Int64Range(0, maxRate).Draw(t, "clients"),
		HeaviestClient: rapid.SampledFrom([]string{"", "10.0.0.1", "2001:db8::", "user\t7"}).Draw(t, "client"),
		Cost:           rapid.SampledFrom([]hottype.Cost{"", "time", "bytes", "response.X\tCost"}).Draw(t, "cost"),
		ClientShare:    rapid.Float64Range(-maxRate, maxRate).Draw(t, "client share"),
	}
}

func TestSetComesOutAsItWentIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.Custom(anyHot), 0, 400).Draw(t, "keys")
		loops := rapid.SliceOfN(rapid.Custom(anyHot), 0, 9).Draw(t, "loops")
		text, err := appendSet(nil, keys)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = appendLoops(text, loops); err != nil {
			t.Fatal(err)
		}
		packed, encoding, err := pack(text, encodingWhole, compressFrom)
		if err != nil {
			t.Fatal(err)
		}
		body, err := unpack(string(packed), encoding, encodingWhole)
		if err != nil {
			t.Fatal(err)
		}
		got, gotLoops, err := parseSet(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, keys, cmpopts.EquateEmpty()) +
			cmp.Diff(gotLoops, loops, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestReadersPassOverFieldsTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	got, _, err := parseSet("k\tr\t1\t2\t3\t4\tlater=x=y\tclients=7\tmore\t\n")
	want := []hottype.HotKey{{Key: "k", Rule: "r", Rate: 1, Lower: 1, Upper: 1, PeakRate: 2, Clients: 7,
		Since: time.UnixMicro(3).UTC(), Until: time.UnixMicro(4).UTC()}}
	if err != nil || !cmp.Equal(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
}

// A reader that knows six fields only, and of no loops, must not limit one.
func TestOldReadersTakeLoopsForExpired(t *testing.T) {
	t.Parallel()
	set := hot(now(), 1)
	text, err := appendLoops(nil, set.Keys)
	if err != nil {
		t.Fatal(err)
	}
	if fields := strings.Split(string(text), "\t"); len(fields) < 7 || fields[5] != "0" {
		t.Errorf("%q: until is not 0", text)
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
		{"k\tr\t1\t2\t3\t0\tloop=x\n", `time "x"`},
		{"k\tr\t1\t2\t3\t4\tshare=Inf\n", `rate "Inf"`},
		{"k\tr\t1\t2\t3\t4\tclients=\n", `clients ""`},
		{"\n", "line 1: 1 fields"},
	} {
		if _, _, err := parseSet(c.body); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("parseSet(%q): %v; want %q", c.body, err, c.want)
		}
	}
	for _, c := range []struct{ body, encoding, want string }{
		{good, "hotset9", `encoding "hotset9"`},
		{good, encodingWhole + packed, "gzip: invalid header"},
	} {
		if _, err := unpack(c.body, c.encoding, encodingWhole); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("unpack(%q): %v; want %q", c.encoding, err, c.want)
		}
	}
}

func TestGzipBombIsRejected(t *testing.T) {
	t.Parallel()
	packed, encoding, err := pack(make([]byte, bodyMax+1), encodingWhole, compressFrom)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(string(packed), encoding, encodingWhole); err == nil ||
		!strings.Contains(err.Error(), "unpacked") {
		t.Fatalf("%d bytes unpack to too many, and the error is %v", len(packed), err)
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add("topic?id=42\ttopic\t200.4\t300\t1\t2\n")
	f.Add(
		"topic?id=1\ttopic\t200\t300\t1\t0\tlower=190\tupper=210\twhy=rate\tclients=3\tclient=10.0.0.1\tclient_share=0.9\tloop=7\n")
	f.Add("a\\tb\\\\\t\\n\t-1\t0\t0\t-5\textra\n")
	f.Fuzz(func(t *testing.T, body string) {
		keys, loops, err := parseSet(body)
		if err != nil {
			return
		}
		text, err := appendSet(nil, keys)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = appendLoops(text, loops); err != nil {
			t.Fatal(err)
		}
		again, loopsAgain, err := parseSet(string(text))
		if err != nil || !cmp.Equal(again, keys) || !cmp.Equal(loopsAgain, loops) {
			t.Fatalf("%v\n%s%s", err, cmp.Diff(again, keys), cmp.Diff(loopsAgain, loops))
		}
	})
}

func BenchmarkSet10k(b *testing.B) {
	set := varied(now(), 10_000)
	text, err := appendSet(nil, set.Keys)
	if err != nil {
		b.Fatal(err)
	}
	packed, encoding, err := pack(text, encodingWhole, compressFrom)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			text, _ = appendSet(text[:0], set.Keys)
			_, _, _ = pack(text, encodingWhole, compressFrom)
		}
		b.ReportMetric(float64(len(text)), "text-bytes")
		b.ReportMetric(float64(len(packed)), "packed-bytes")
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body, _ := unpack(string(packed), encoding, encodingWhole)
			_, _, _ = parseSet(body)
		}
	})
}
