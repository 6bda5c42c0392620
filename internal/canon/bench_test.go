package canon

import (
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func BenchmarkAppend(b *testing.B) {
	one := NewSelector(Selection{Names: []Param{{Name: "id"}}})
	two := NewSelector(Selection{Names: []Param{{Name: "id"}, {Name: "lang"}}})
	all := NewSelector(Selection{All: true})
	ignoring := NewSelector(Selection{All: true, Ignore: []string{"utm_*", "_"}})
	integer := NewSelector(Selection{Names: []Param{{Name: "id", Normal: Normalization{Integer: IntegerDecimal}}}})
	for _, c := range []struct {
		name string
		sel  *Selector
		raw  string
	}{
		{"empty", &one, ""},
		{"untracked", &one, "page=2&ref=home&utm_source=mail"},
		{"one_of_three", &one, "id=42&page=2&lang=en"},
		{"two_unsorted", &two, "lang=en&page=2&id=42"},
		{"all_sorted", &all, "id=42&lang=en&page=2"},
		{"all_unsorted", &all, "page=2&lang=en&id=42"},
		{"all_ignoring", &ignoring, "id=42&lang=en&utm_source=mail"},
		{"escaped", &one, "id=%E4%B8%AD%E6%96%87&page=2&lang=en"},
		{"integer", &integer, "id=00042&page=2&lang=en"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			lim, sc := DefaultQueryBounds(), new(Scratch)
			dst := make([]byte, 0, 256)
			for b.Loop() {
				dst, _ = c.sel.Append(append(dst[:0], "topic"...), c.raw, nil, &lim, sc)
			}
		})
	}
}

func BenchmarkNames(b *testing.B) {
	n := Names{Prefix: "news"}
	key := hottype.Key("topic?id=42&lang=en")
	metric := n.Append(nil, key)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		dst := make([]byte, 0, 256)
		for b.Loop() {
			dst = n.Append(dst[:0], key)
		}
	})
	b.Run("append_key", func(b *testing.B) {
		b.ReportAllocs()
		dst := make([]byte, 0, 256)
		for b.Loop() {
			dst, _ = n.AppendKey(dst[:0], metric)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = n.Parse(metric)
		}
	})
	b.Run("foreign", func(b *testing.B) {
		b.ReportAllocs()
		foreign := []byte("news.api.requests")
		for b.Loop() {
			_, _ = n.Parse(foreign)
		}
	})
}
