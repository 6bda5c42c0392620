package kafka_test

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

func TestParseRecord_ReadsJSON(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data string
		want kafka.Record
	}{
		"by hand": {`{"namespace":"news","counts":[{"key":"topic?id=42","n":300}]}`,
			kafka.Record{Namespace: "news", Counts: []hottype.Count{{Key: "topic?id=42", N: 300}}}},
		"all": {`{"version":1,"namespace":"news","source":"web-1","epoch":1700000000000000,"sequence":7,` +
			`"counts":[{"key":"a","n":1,"second":1700000123},{"key":"caf\u00e9","n":1099511627776,"later":[1]}],"later":{"a":{}}}`,
			kafka.Record{Namespace: "news", Source: "web-1", Epoch: 1700000000000000, Sequence: 7,
				Counts: []hottype.Count{{Key: "a", N: 1, Second: 1700000123}, {Key: "café", N: hottype.MaxCount}}}},
		"spread out": {"{\n \"namespace\" : \"n\" ,\r\n \"counts\" : [ ] }\n\n", kafka.Record{Namespace: "n"}},
		"empty":      {`{}`, kafka.Record{}},
	} {
		got, err := kafka.ParseRecord([]byte(test.data))
		if d := cmp.Diff(test.want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
}

// The records that docs/protocol.md shows for typing by hand are read.
func TestParseRecord_ReadsJSONOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`\{"namespace":.*\]\}`).FindAll(doc, -1)
	if len(lines) != 2 {
		t.Fatalf("docs/protocol.md has %d examples", len(lines))
	}
	for _, line := range lines {
		if r, err := kafka.ParseRecord(line); err != nil || r.Namespace != "news" || len(r.Counts) != 1 {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
	}
}

func TestParseRecord_RejectsBrokenJSON(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"cut":           `{"namespace":"n","counts":[{"key":"k","n":1}`,
		"two":           `{"namespace":"n"}{"namespace":"n"}`,
		"more":          `{"namespace":"n"}}`,
		"not UTF-8":     "{\"namespace\":\"n\",\"counts\":[{\"key\":\"\xff\",\"n\":1}]}",
		"half a pair":   `{"counts":[{"key":"\ud800","n":1}]}`,
		"no key":        `{"counts":[{"n":1}]}`,
		"n 0":           `{"counts":[{"key":"k"}]}`,
		"n negative":    `{"counts":[{"key":"k","n":-1}]}`,
		"n large":       `{"counts":[{"key":"k","n":1099511627777}]}`,
		"n larger":      `{"counts":[{"key":"k","n":1e30}]}`,
		"n text":        `{"counts":[{"key":"k","n":"1"}]}`,
		"fraction":      `{"counts":[{"key":"k","n":1.5}]}`,
		"key long":      `{"counts":[{"key":"` + strings.Repeat("k", 70000) + `","n":1}]}`,
		"name long":     `{"source":"` + strings.Repeat("s", 300) + `"}`,
		"counts object": `{"counts":{"k":1}}`,
		"epoch":         `{"epoch":-1}`,
		"version 0":     `{"version":0}`,
		"too long":      `{"counts":[]` + strings.Repeat(" ", 1<<20) + `}`,
		"deep":          `{"x":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`,
	} {
		if r, err := kafka.ParseRecord([]byte(data)); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
	if _, err := kafka.ParseRecord([]byte(`{"version":2}`)); !errors.Is(err, kafka.ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
}

// Both forms hold the same counts.
func TestParseRecord_JSONAndProtobufAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyRecord(t)
		type pair struct {
			Key    string `json:"key"`
			N      int64  `json:"n"`
			Second int64  `json:"second"`
		}
		pairs := []pair{}
		for i := range want.Counts {
			c := &want.Counts[i]
			c.Clients = nil // which JSON does not have
			if !utf8.ValidString(string(c.Key)) || strings.ContainsRune(string(c.Key), utf8.RuneError) {
				c.Key = "k"
			}
			pairs = append(pairs, pair{string(c.Key), c.N, c.Second})
		}
		data, err := json.Marshal(map[string]any{"namespace": want.Namespace, "source": want.Source,
			"epoch": want.Epoch, "sequence": want.Sequence, "counts": pairs})
		if err != nil {
			t.Fatal(err)
		}
		got, err := kafka.ParseRecord(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// allocated returns the number of bytes that ParseRecord allocates. The process may do other things meanwhile, so it is
// the minimum of some attempts.
func allocated(data []byte) uint64 {
	least := ^uint64(0)
	var before, after runtime.MemStats
	for range 3 {
		runtime.ReadMemStats(&before)
		_, _ = kafka.ParseRecord(data)
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// allowance returns the bound that docs/protocol.md states: 64 bytes for each byte of the record, and 64 KiB.
func allowance(data []byte) uint64 { return 64*uint64(len(data)) + 64<<10 }

func TestParseRecord_AllocationIsBounded(t *testing.T) { // not parallel: others allocate too
	if testing.CoverMode() != "" {
		t.Skip("coverage allocates")
	}
	smallest := (&kafka.Record{Counts: []hottype.Count{{Key: "k", N: 1}}})
	pair := smallest.Append(nil)[len((&kafka.Record{}).Append(nil)):]
	for name, data := range map[string][]byte{
		"smallest pairs": append((&kafka.Record{}).Append(nil), []byte(strings.Repeat(string(pair), 5_000))...),
		"smallest JSON": []byte(`{"counts":[` + strings.Repeat(`{"key":"k","n":1},`, 5_000) +
			`{"key":"k","n":1}]}`),
		"empty objects":      []byte(`{"counts":[` + strings.Repeat(`{},`, 3_000) + `{}]}`),
		"nested":             []byte(`{"x":` + strings.Repeat("[", 50_000)),
		"many unknown":       []byte(`{` + strings.Repeat(`"x":1,`, 15_000) + `"x":1}`),
		"counts again":       []byte(`{` + strings.Repeat(`"counts":[{"key":"k","n":1}],`, 3_000) + `"x":1}`),
		"huge length":        {0x08, 1, 0x32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"namespace repeated": []byte(strings.Repeat("\x12\x01n", 3_000)),
	} {
		if got := allocated(data); got > allowance(data) {
			t.Errorf("%s: %d bytes allocated for %d, more than %d", name, got, len(data), allowance(data))
		}
	}
}
