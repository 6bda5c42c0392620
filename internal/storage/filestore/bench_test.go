package filestore

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// BenchmarkOverrideChange replaces one override of a directory, and saves such a change in the copy of a limiter.
func BenchmarkOverrideChange(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		live, texts := rules.LiveOverrides{}, map[string]string{}
		for i := range n {
			o := limitTo(fmt.Sprint("topic?id=", i), 5)
			o.ID, o.Created = fmt.Sprint("o", i), time.Unix(1e9, 0)
			live = live.With(o.ID, o)
			texts[o.ID] = fmt.Sprintf(`{"id":%q,"key":%q,"action":"limit","rate":5}`, o.ID, o.Key)
		}
		d := dirDisk(b.TempDir())
		data, err := (&Overrides{max: maxFile}).encode(live, nil, 0)
		if err := errors.Join(err, d.replace(overridesFile, data)); err != nil {
			b.Fatal(err)
		}
		o, err := load(d, time.Now)
		if err != nil {
			b.Fatal(err)
		}
		first, _ := live.Get("o0")
		b.Run(fmt.Sprint("store/", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := o.Put(ctx, first); err != nil {
					b.Fatal(err)
				}
			}
		})
		c, entries, revision := newCopy(dirDisk(b.TempDir()), nil, slog.Default()), persistentOf(texts), int64(1)
		if err := c.Save(revision, entries); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint("copy/", n), func(b *testing.B) {
			for b.Loop() {
				revision++
				entries = entries.With("o0", fmt.Sprintf(`{"id":"o0","key":"topic?id=0","action":"limit","rate":%d}`, revision))
				if err := c.Save(revision, entries); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
