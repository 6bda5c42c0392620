package persistent

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMap_IsAMapAtEachVersion holds every version of a map against a Go map: its entries, and the changes from each
// version to each other one.
func TestMap_IsAMapAtEachVersion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		versions, models := []Map[int]{{}}, []map[string]int{{}}
		keys := rapid.SampledFrom([]int{3, 2 * fan * fan}).Draw(t, "keys")
		for i := range rapid.IntRange(1, 60).Draw(t, "changes") {
			key := fmt.Sprint(rapid.IntRange(0, keys).Draw(t, "key"))
			m, model := versions[i], maps.Clone(models[i])
			if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				m = m.Without(key)
				delete(model, key)
			} else {
				model[key] = rapid.IntRange(0, 2).Draw(t, "value")
				m = m.With(key, model[key])
			}
			versions, models = append(versions, m), append(models, model)
		}
		for i, m := range versions {
			if got := maps.Collect(m.All()); !maps.Equal(got, models[i]) || m.Len() != len(got) {
				t.Fatalf("version %d: %v of %d, want %v", i, got, m.Len(), models[i])
			}
			for key, want := range models[i] {
				v, ok := m.Get(key)
				if w, okToo := m.GetBytes([]byte(key)); v != want || w != want || !ok || !okToo {
					t.Fatalf("version %d: %s is %d, %d, want %d", i, key, v, w, want)
				}
			}
			if _, ok := m.Get("no such key"); ok {
				t.Fatal("an absent key was found")
			}
		}
		i, j := rapid.IntRange(0, len(versions)-1).Draw(t, "from"), rapid.IntRange(0, len(versions)-1).Draw(t, "to")
		changed := maps.Clone(models[i])
		for c := range versions[j].Changes(versions[i], func(a, b int) bool { return a == b }) {
			before, had := changed[c.Key]
			if had != (c.Before != nil) || had && before != *c.Before || c.After != nil && had && before == *c.After {
				t.Fatalf("change %+v of %v", c, changed)
			}
			delete(changed, c.Key)
			if c.After != nil {
				changed[c.Key] = *c.After
			}
		}
		if !maps.Equal(changed, models[j]) {
			t.Fatalf("changes from %v lead to %v, not %v", models[i], changed, models[j])
		}
	})
}

// TestMap_ChangesVisitWhatDiffers counts the comparisons of two maps of many entries, one of which was made from the
// other.
func TestMap_ChangesVisitWhatDiffers(t *testing.T) {
	t.Parallel()
	var m Map[int]
	for i := range 10_000 {
		m = m.With(fmt.Sprint(i), i)
	}
	next, compared, changes := m.With("17", -1).Without("18").With("x", 0), 0, 0
	for range next.Changes(m, func(a, b int) bool { compared++; return a == b }) {
		changes++
	}
	if changes != 3 || compared > 40 {
		t.Errorf("%d changes after %d comparisons", changes, compared)
	}
}

// TestList_IsASortedSlice holds every version of a list against a slice. Elements with the same tens compare as equal
// and keep the order in which they were added.
func TestList_IsASortedSlice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		compare := func(a, b int) int { return a/10 - b/10 }
		most := rapid.SampledFrom([]int{30, 3000}).Draw(t, "most")
		var l List[int]
		var model []int
		for range rapid.IntRange(1, 4*chunkSize).Draw(t, "changes") {
			v, old, before := rapid.IntRange(0, most).Draw(t, "v"), l, slices.Clone(model)
			if i := slices.Index(model, v); i >= 0 {
				model = slices.Delete(model, i, i+1)
				l = l.Without(v, compare)
			} else {
				model = append(model, v)
				slices.SortStableFunc(model, compare)
				l = l.With(v, compare)
			}
			if !slices.Equal(slices.Collect(old.All()), before) {
				t.Fatal("a change altered the list that it was made from")
			}
		}
		l = l.Without(most+1, compare)
		if got := slices.Collect(l.All()); !slices.Equal(got, model) || l.Len() != len(model) {
			t.Fatalf("%v of %d, want %v", got, l.Len(), model)
		}
	})
}

func BenchmarkMap(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		var m Map[int]
		for i := range n {
			m = m.With(fmt.Sprint("topic?id=", i), i)
		}
		b.Run(fmt.Sprint("With/", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.With("topic?id=7", 1)
			}
		})
		b.Run(fmt.Sprint("GetBytes/", n), func(b *testing.B) {
			key := []byte("topic?id=7")
			for b.Loop() {
				m.GetBytes(key)
			}
		})
	}
}
