package filestore

import (
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// BenchmarkOverrideChange replaces one override of a directory, and writes the copy of a limiter.
func BenchmarkOverrideChange(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		live, texts := rules.LiveOverrides{}, map[string]string{}
		for i := range n {
			o := limitTo(fmt.Sprint("topic?id=", i), 5)
			o.ID, o.Created = fmt.Sprint("o", i), time.Unix(1e9, 0)
			live = live.With(o.ID, o)
			texts[o.ID] = fmt.Sprintf(`{"id":%q,"key":%q,"action":"limit","rate":5}`, o.ID, o.Key)
		}
		o, err := load(dirDisk(b.TempDir()), time.Now)
		if err != nil {
			b.Fatal(err)
		}
		o.entries = live
		first, _ := live.Get("o0")
		b.Run(fmt.Sprint("store/", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := o.Put(ctx, first); err != nil {
					b.Fatal(err)
				}
			}
		})
		c, entries := &OverridesCopy{disk: dirDisk(b.TempDir())}, persistentOf(texts)
		b.Run(fmt.Sprint("copy/", n), func(b *testing.B) {
			for b.Loop() {
				if err := c.Save(1, entries); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
