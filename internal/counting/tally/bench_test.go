package tally_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
)

type discard struct{}

func (discard) Send(context.Context, []hottype.Count) error { return nil }

func BenchmarkAdd(b *testing.B) {
	keys := make([][]byte, 1024)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "topic?id=%d&lang=en", i)
	}
	b.Run("known", func(b *testing.B) {
		t := tally.New(tally.Config{Sink: discard{}})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			t.Add(keys[i&1023], 1700000000, 1)
		}
	})
	b.Run("unique", func(b *testing.B) {
		t := tally.New(tally.Config{Sink: discard{}})
		key := []byte("topic?id=00000000")
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			binary.LittleEndian.PutUint64(key[9:], uint64(i))
			t.Add(key, 1700000000, 1)
			if i&0xffff == 0xffff {
				_ = t.Flush(context.Background())
			}
		}
	})
	b.Run("unique-full", func(b *testing.B) {
		t := tally.New(tally.Config{Sink: discard{}})
		key := []byte("topic?id=00000000")
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			binary.LittleEndian.PutUint64(key[9:], uint64(i))
			t.Add(key, 1700000000, 1)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		t := tally.New(tally.Config{Sink: discard{}})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				t.Add(keys[i&1023], 1700000000, 1)
			}
		})
	})
	b.Run("parallel-one-key", func(b *testing.B) {
		t := tally.New(tally.Config{Sink: discard{}})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				t.Add(keys[7], 1700000000, 1)
			}
		})
	})
}
