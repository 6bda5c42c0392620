package kafka_test

import (
	"encoding/hex"
	"errors"
	"hash/fnv"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

func anyRecord(t *rapid.T) kafka.Record {
	r := kafka.Record{
		Namespace: rapid.StringN(0, 5, 20).Draw(t, "namespace"),
		Source:    rapid.StringN(0, 5, 20).Draw(t, "source"),
		Epoch:     rapid.Uint64().Draw(t, "epoch"),
		Sequence:  rapid.Uint64().Draw(t, "sequence"),
	}
	for range rapid.IntRange(0, 20).Draw(t, "pairs") {
		r.Counts = append(r.Counts, hottype.Count{
			Key:     hottype.Key(rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "key")),
			N:       rapid.Int64Range(1, hottype.MaxCount).Draw(t, "n"),
			Second:  rapid.Int64().Draw(t, "second"),
			Clients: anySketch(t),
		})
	}
	return r
}

func TestRecord_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyRecord(t)
		got, err := kafka.ParseRecord(want.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, addresses); d != "" {
			t.Fatal(d)
		}
	})
}

// Every beginning of a record is either broken or a record with fewer pairs.
func TestParseRecord_TruncatedRecordHasFewerPairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		data := r.Append(nil)
		cut := data[:rapid.IntRange(0, len(data)).Draw(t, "cut")]
		got, err := kafka.ParseRecord(cut)
		if err == nil && len(got.Counts) > len(r.Counts) {
			t.Fatalf("%d pairs of %d", len(got.Counts), len(r.Counts))
		}
	})
}

func TestParseRecord_RejectsBrokenRecords(t *testing.T) {
	t.Parallel()
	pair := func(c hottype.Count) []byte {
		return (&kafka.Record{Counts: []hottype.Count{c}}).Append(nil)
	}
	for name, data := range map[string][]byte{
		"empty":        {},
		"no version":   protowire.AppendVarint(protowire.AppendTag(nil, 5, protowire.VarintType), 1),
		"text":         []byte("hello, this is not a record"),
		"no key":       pair(hottype.Count{N: 1}),
		"n 0":          pair(hottype.Count{Key: "k"}),
		"n negative":   pair(hottype.Count{Key: "k", N: -1}),
		"n too large":  pair(hottype.Count{Key: "k", N: math.MaxInt64}),
		"key too long": pair(hottype.Count{Key: hottype.Key(strings.Repeat("k", 70000)), N: 1}),
		"huge length":  {0x08, 1, 0x32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"pair varint":  {0x08, 1, 0x30, 1},
		"long name":    (&kafka.Record{Source: strings.Repeat("s", 300)}).Append(nil),
	} {
		if r, err := kafka.ParseRecord(data); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
	if _, err := kafka.ParseRecord([]byte{0x08, 2}); !errors.Is(err, kafka.ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
}

// Fields that a later writer of version 1 adds are skipped.
func TestParseRecord_SkipsUnknownFields(t *testing.T) {
	t.Parallel()
	r := kafka.Record{Namespace: "n", Counts: []hottype.Count{{Key: "k", N: 1, Second: 2}}}
	data := r.Append(nil)
	data = protowire.AppendString(protowire.AppendTag(data, 20, protowire.BytesType), "later")
	data = protowire.AppendFixed64(protowire.AppendTag(data, 21, protowire.Fixed64Type), 7)
	got, err := kafka.ParseRecord(data)
	if err != nil || !cmp.Equal(got, r, addresses) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add((&kafka.Record{Namespace: "n", Source: "s", Epoch: 1, Sequence: 2,
		Counts: []hottype.Count{{Key: "topic?id=42", N: 3, Second: 1700000000}}}).Append(nil))
	f.Add((&kafka.Record{Counts: []hottype.Count{{Key: "k", N: 300, Second: 1, Clients: twoClients()}}}).Append(nil))
	f.Add([]byte{0x08, 1, 0x32, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(
		[]byte(
			`{"version":1,"namespace":"n","source":"s","epoch":1,"sequence":2,"counts":[{"key":"topic?id=42","n":3,"second":1700000000}]}`))
	f.Add([]byte(`{"counts":[{"key":"\ud83d\ude00","n":1},{"n":1.5,"later":[{}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := allocated(data); got > allowance(data) {
			t.Fatalf("%d bytes allocated for %d", got, len(data))
		}
		r, err := kafka.ParseRecord(data)
		if err != nil {
			return
		}
		// A pair takes at least nine bytes, which bounds the allocated memory.
		if 9*len(r.Counts) > len(data) {
			t.Fatalf("%d pairs from %d bytes", len(r.Counts), len(data))
		}
		again, err := kafka.ParseRecord(r.Append(nil))
		if err != nil || !cmp.Equal(r, again, addresses) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

func TestPartition_IsFNV1a(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Draw(t, "key")
		n := rapid.Int32Range(1, 1000).Draw(t, "partitions")
		h := fnv.New64a()
		h.Write([]byte(key))
		if got, want := kafka.Partition(hottype.Key(key), n), int32(h.Sum64()%uint64(n)); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

// The bytes that docs/protocol.md shows are the bytes that are written.
func TestRecord_WritesTheDocumentedBytes(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(doc), "<!-- record -->\n```\n")
	block, _, ok2 := strings.Cut(block, "```")
	if !ok || !ok2 {
		t.Fatal("docs/protocol.md has no example")
	}
	var shown []byte
	hexes := regexp.MustCompile(`^(?:[0-9a-f]{2} )*[0-9a-f]{2}`)
	for line := range strings.Lines(block) {
		b, err := hex.DecodeString(strings.ReplaceAll(hexes.FindString(line), " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, b...)
	}
	want := kafka.Record{Namespace: "news", Source: "web-1", Epoch: 1700000000000000, Sequence: 7,
		Counts: []hottype.Count{{Key: "topic?id=42", N: 300, Second: 1700000123, Clients: twoClients()},
			{Key: "/", N: 1, Second: 1700000123}}}
	if d := cmp.Diff(hex.Dump(want.Append(nil)), hex.Dump(shown)); d != "" {
		t.Errorf("docs/protocol.md shows other bytes:\n%s", d)
	}
	for key, p := range map[hottype.Key]int32{"topic?id=42": 5, "/": 6} {
		if got := kafka.Partition(key, 8); got != p {
			t.Errorf("partition of %q among 8 is %d, the document says %d", key, got, p)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	r := kafka.Record{Namespace: "news", Source: "web-1", Epoch: 1, Sequence: 1}
	for i := range 1000 {
		r.Counts = append(r.Counts, hottype.Count{Key: hottype.Key("topic?id=" + strings.Repeat("4", 1+i%9)), N: 7,
			Second: 1700000000})
	}
	data := r.Append(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			data = r.Append(data[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := kafka.ParseRecord(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
