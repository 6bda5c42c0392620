package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
)

func TestSeconds_AreBounded(t *testing.T) {
	t.Parallel()
	s := newSeconds()
	add := func(now time.Time, names ...string) {
		keys := make([]hottype.Key, len(names))
		for i, name := range names {
			keys[i] = hottype.Key(name)
		}
		s.add(now, keys, make([]past.Second, len(names)))
	}
	names := func(prefix string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint(prefix, i))
		}
		return all
	}
	now := t0
	add(now, "old")
	now = now.Add(time.Second)
	add(now, names("a", 2*keepKeys)...)
	if len(s.keys) != keepKeys || s.keys["old"] != nil || s.keys["a0"] == nil ||
		s.keys[hottype.Key(fmt.Sprint("a", keepKeys))] != nil {
		t.Fatalf("%d keys, want the first %d", len(s.keys), keepKeys)
	}
	now = now.Add(time.Second)
	add(now, append(names("a", 3), "new")...)
	if len(s.keys) != keepKeys || s.keys["new"] == nil || s.keys["a0"] == nil {
		t.Errorf("%d keys; the one that was not seen for the longest goes", len(s.keys))
	}
	now = now.Add(keepSeconds * time.Second)
	add(now, "late")
	if len(s.keys) != 1 || len(s.last) != 1 {
		t.Errorf("%d keys after fifteen minutes", len(s.keys))
	}
}
