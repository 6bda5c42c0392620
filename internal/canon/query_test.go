package canon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var wide = QueryBounds{Pairs: 1 << 20, NameBytes: 1 << 20, ValueBytes: 1 << 20, QueryBytes: 1 << 24}

func params(s *Selector, raw string, lim QueryBounds, extra ...Value) string {
	keys := allKeys(s, raw, lim, new(Scratch), extra...)
	return strings.Join(keys, " ")
}

// allKeys returns the canonical parameters of every key of a request.
func allKeys(s *Selector, raw string, lim QueryBounds, sc *Scratch, extra ...Value) []string {
	key, n := s.Append([]byte("r"), raw, extra, &lim, sc)
	if (n == 0) != (string(key) == "r?"+Malformed) || n > MaxKeys {
		return []string{fmt.Sprintf("%d keys, but %s", n, key)}
	}
	keys := []string{strings.TrimPrefix(string(key[1:]), "?")}
	for k := 1; k < n; k++ {
		keys = append(keys, strings.TrimPrefix(string(sc.AppendKey([]byte("r"), k)[1:]), "?"))
	}
	return keys
}

func TestAppend_WritesCanonicalParameters(t *testing.T) {
	t.Parallel()
	all := Selection{All: true}
	id := Selection{Names: []Param{{Name: "id"}}}
	for _, c := range []struct {
		name string
		sel  Selection
		raw  string
		want string
	}{
		{"no query", all, "", ""},
		{"only ands", all, "&&&", ""},
		{"flag is flag=", all, "flag", "flag="},
		{"empty name", all, "=x", "=x"},
		{"lone equals", all, "=", "="},
		{"first equals splits", all, "a=b=c", "a=b%3Dc"},
		{"semicolon is a byte", all, "a=1;b=2", "a=1%3Bb%3D2"},
		{"plus is a space", all, "a+b=c+d", "a%20b=c%20d"},
		{"escaped plus is a plus", all, "a=%2B", "a=%2B"},
		{"percent without digits", all, "a=100%&b=%zz&c=%4", "a=100%25&b=%25zz&c=%254"},
		{"percent percent", all, "a=%%41", "a=%25A"},
		{"decoded once", all, "a=%2541", "a=%2541"},
		{"needless escapes", all, "%61=%7e%2d", "a=~-"},
		{"sorted by decoded bytes", all, "a=%ff&a=b&a=%00", "a=%00&a=b&a=%FF"},
		{"a prefix sorts first", all, "ab=1&a=2&a%00=3", "a=2&a%00=3&ab=1"},
		{"equals does not sort", all, "a-=1&a=2", "a=2&a-=1"},
		{"duplicates stay", all, "a=2&a=1&a=2", "a=1&a=2&a=2"},
		{"cannot be forged", all, "!malformed", "%21malformed="},
		{"unicode", all, "q=中文", "q=%E4%B8%AD%E6%96%87"},
		{"tracked", id, "page=2&id=42&x=%zz", "id=42"},
		{"tracked by any spelling", id, "%69%64=42", "id=42"},
		{"prefix of a name", id, "i=1&idx=2&id", "id="},
		{"untracked", id, "page=2&ref=home", ""},
		{"fragment is a byte", id, "id=1#top", "id=1%23top"},
		{"names are exact", id, "ID=42&+id=1", ""},
		{"ignore", Selection{All: true, Ignore: []string{"utm_*", "_"}}, "utm_source=x&_=1&a=2&utm%5Fx=3&__=4",
			"__=4&a=2"},
		{"a name beats ignore", Selection{All: true, Ignore: []string{"*"}, Names: []Param{{Name: "id"}}}, "a=1&id=2",
			"id=2"},
		{"name that needs escapes", Selection{Names: []Param{{Name: "f[]"}}}, "f[]=1&f%5b%5d=0", "f%5B%5D=0&f%5B%5D=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := NewSelector(c.sel)
			if got := params(&s, c.raw, DefaultQueryBounds()); got != c.want {
				t.Errorf("Append(%q) = %q, want %q", c.raw, got, c.want)
			}
		})
	}
}

func TestNormalization_RewritesValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n         Normalization
		raw, want string
	}{
		{Normalization{Integer: IntegerDecimal}, "a=042", "a=42"},
		{Normalization{Integer: IntegerDecimal}, "a=-042", "a=-42"},
		{Normalization{Integer: IntegerDecimal}, "a=%2B042", "a=42"},
		{Normalization{Integer: IntegerDecimal}, "a=-0&a=00&a=0", "a=0&a=0&a=0"},
		{Normalization{Integer: IntegerDecimal}, "a=-&a=%2B&a=&a=4x&a=0x10&a=1.0&a=+1",
			"a=&a=%201&a=%2B&a=-&a=0x10&a=1.0&a=4x"},
		{Normalization{Integer: IntegerDecimal}, "a=000000000000000000000000000000018446744073709551616",
			"a=18446744073709551616"},
		{Normalization{Fold: true}, "a=ÄbC%41", "a=%C3%84bca"},
		{Normalization{Duplicates: DuplicatesFirst}, "a=2&a=1&a=3&b=1&b=0", "a=2&b=1"},
		{Normalization{Duplicates: DuplicatesLast}, "a=2&a=1&a=3&b=1&b=0", "a=3&b=0"},
		{Normalization{Duplicates: DuplicatesLast}, "a=%ff&a=2", "a=2"},
		{Normalization{Duplicates: DuplicatesFirst, Integer: IntegerDecimal}, "a=007&a=1", "a=7"},
		// the pair that breaks the order repeats a name
		{Normalization{Duplicates: DuplicatesFirst}, "a=2&b=1&a=1", "a=2&b=1"},
		{Normalization{Duplicates: DuplicatesEach}, "a=2", "a=2"},
		{Normalization{Duplicates: DuplicatesEach}, "a=2&a=2&a=%32", "a=2"},
		{Normalization{Duplicates: DuplicatesEach}, "a=2&a=1", "a=1 a=2"},
		{Normalization{Duplicates: DuplicatesEach}, "a=2&b=1&a=1", "a=1&b=1 a=2&b=1"},
		{Normalization{Duplicates: DuplicatesEach}, "a=1&a=2&b=1&b=&c=x",
			"a=1&b=&c=x a=2&b=&c=x a=1&b=1&c=x a=2&b=1&c=x"},
		{Normalization{Duplicates: DuplicatesEach}, "a=4&a=3&a=2&a=1&a=4", "a=1 a=2 a=3 a=4"},
		{Normalization{Duplicates: DuplicatesEach}, "a=4&a=3&a=2&a=1&a=5", Malformed},
		{Normalization{Duplicates: DuplicatesEach}, "a=1&a=2&b=1&b=2&c=1&c=2", Malformed},
		{Normalization{Duplicates: DuplicatesEach, Integer: IntegerDecimal, Fold: true}, "a=07&a=7&a=B&a=b", "a=7 a=b"},
		{Normalization{Duplicates: DuplicatesEach}, strings.Repeat("a=star&", 256), "a=star"},
		{Normalization{Duplicates: DuplicatesEach}, strings.Repeat("a=star&", 257), Malformed},
	} {
		s := NewSelector(Selection{All: true, Normal: c.n})
		if got := params(&s, c.raw, DefaultQueryBounds()); got != c.want {
			t.Errorf("%+v: Append(%q) = %q, want %q", c.n, c.raw, got, c.want)
		}
	}
}

func TestAppend_ClientCannotWriteExtraPairs(t *testing.T) {
	t.Parallel()
	extra := []Param{{Name: "path.id", Normal: Normalization{Integer: IntegerDecimal}}, {Name: "header.X-Tier"}}
	values := []Value{{Text: "%30%37+", Escaped: true, Present: true}, {Text: "a%20+b", Present: true}}
	for _, c := range []struct {
		sel  Selection
		raw  string
		vals []Value
		want string
	}{
		{Selection{Extra: extra}, "path.id=9&header.X-Tier=gold", values, "header.X-Tier=a%2520%2Bb&path.id=07%2B"},
		{Selection{Extra: extra, All: true}, "path%2Eid=9&q=1", values, "header.X-Tier=a%2520%2Bb&path.id=07%2B&q=1"},
		{Selection{Extra: extra, All: true}, "path.id=9&q=1", []Value{{Text: "07", Escaped: true, Present: true}, {}},
			"path.id=7&q=1"},
		{Selection{Extra: extra, Names: []Param{{Name: "path.id"}}}, "path.id=9", nil, ""},
	} {
		s := NewSelector(c.sel)
		if got := params(&s, c.raw, DefaultQueryBounds(), c.vals...); got != c.want {
			t.Errorf("Append(%q) = %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestAppend_BeyondBoundsIsNeverFree(t *testing.T) {
	t.Parallel()
	lim := QueryBounds{Pairs: 3, NameBytes: 4, ValueBytes: 5, QueryBytes: 60}
	all, id := NewSelector(Selection{All: true}), NewSelector(Selection{Names: []Param{{Name: "id"}}})
	ign := NewSelector(Selection{All: true, Ignore: []string{"x*"}})
	ext := NewSelector(Selection{Extra: []Param{{Name: "path.id"}}})
	path := func(s string) []Value { return []Value{{Text: s, Escaped: true, Present: true}} }
	for _, c := range []struct {
		sel   *Selector
		raw   string
		extra []Value
		want  string
	}{
		{&all, "a=1&b=2&c=3", nil, "a=1&b=2&c=3"},
		{&all, "a=1&b=2&c=3&d", nil, Malformed},
		{&all, "&&&&a=1&&&b=2&c=3&&", nil, "a=1&b=2&c=3"},
		{&id, "a=1&b=2&c=3&id=4", nil, Malformed}, // untracked pairs count
		{&all, "abcd=12345", nil, "abcd=12345"},
		{&all, "abcde=1", nil, Malformed},
		{&all, "a=123456", nil, Malformed},
		{&all, "%61%62%63%64=%31%32%33%34%35", nil, "abcd=12345"},
		{&all, "%61%62%63%64%65=1", nil, Malformed},
		{&all, "a=%31%32%33%34%35%36", nil, Malformed},
		{&id, "abcdefgh=123456789", nil, ""}, // untracked: not bounded
		{&ign, "xbcdefgh=123456789&a=1", nil, "a=1"},
		{&ign, "%78bcdefgh=123456789", nil, ""},
		{&id, "id=1&x=" + strings.Repeat("y", 60), nil, Malformed},
		{&ext, "", path("%41%41%41%41%41"), "path.id=AAAAA"},
		{&ext, "", path("AAAAAA"), Malformed},
	} {
		l := lim
		if c.sel == &ext {
			l.NameBytes = 7
		}
		if got := params(c.sel, c.raw, l, c.extra...); got != c.want {
			t.Errorf("Append(%q) = %q, want %q", c.raw, got, c.want)
		}
	}
	huge := strings.Repeat("a=1&", 10_001) // url.ParseQuery returns no pair of it
	if got := params(&all, huge, QueryBounds{Pairs: 256, NameBytes: 64, ValueBytes: 256,
		QueryBytes: 1 << 20}); got != Malformed {
		t.Errorf("10,001 pairs give %q", got)
	}
}

// TestAppend_EqualsOracle covers order, spelling and multisets at once: for any order and spelling, the result is the
// oracle's text of the decoded pairs, and that text decodes to the pairs again.
func TestAppend_EqualsOracle(t *testing.T) {
	t.Parallel()
	all := NewSelector(Selection{All: true})
	sc := new(Scratch)
	rapid.Check(t, func(t *rapid.T) {
		pairs := anyPairs.Draw(t, "pairs")
		raw := spellQuery(t, rapid.Permutation(pairs).Draw(t, "order"))
		got, n := all.Append(nil, raw, nil, &wide, sc)
		want := oracleCanonical(pairs)
		if want != "" {
			want = "?" + want
		}
		if string(got) != want || n != 1 {
			t.Fatalf("Append(%q) = %q, want %q", raw, got, want)
		}
		again, _ := all.Append(nil, strings.TrimPrefix(string(got), "?"), nil, &wide, sc)
		if string(again) != string(got) {
			t.Fatalf("%q is canonical but becomes %q", got, again)
		}
		back := oraclePairs(strings.TrimPrefix(string(got), "?"))
		sortDecoded(pairs)
		if len(back) != len(pairs) {
			t.Fatalf("%q has %d pairs, not %d", got, len(back), len(pairs))
		}
		for i := range back {
			if back[i] != pairs[i] {
				t.Fatalf("%q: pair %d is %q, not %q", got, i, back[i], pairs[i])
			}
		}
	})
}

// TestAppend_EachValueIsAKey compares with an oracle that takes the product of all distinct values, for any order and
// spelling of the request.
func TestAppend_EachValueIsAKey(t *testing.T) {
	t.Parallel()
	sel := Selection{All: true, Names: []Param{
		{Name: "a", Normal: Normalization{Duplicates: DuplicatesEach}},
		{Name: "b", Normal: Normalization{Duplicates: DuplicatesEach, Integer: IntegerDecimal}},
		{Name: "c", Normal: Normalization{Duplicates: DuplicatesFirst}},
		{Name: "d", Normal: Normalization{Duplicates: DuplicatesLast}},
	}}
	s, sc := NewSelector(sel), new(Scratch)
	rapid.Check(t, func(t *rapid.T) {
		pairs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) decoded {
			return decoded{rapid.SampledFrom([]string{"a", "a", "b", "c", "d", "e", "", "%"}).Draw(t, "n"),
				rapid.SampledFrom([]string{"", "1", "2", "02", "star", "&"}).Draw(t, "v")}
		}), 0, 14).Draw(t, "pairs")
		raw := spellQuery(t, pairs)
		got := allKeys(&s, raw, wide, sc)
		slices.Sort(got)
		if want := oracleKeys(sel, pairs); !slices.Equal(got, want) {
			t.Fatalf("%q has the keys %q, want %q", raw, got, want)
		}
	})
}

func TestAppend_SortsManyPairs(t *testing.T) {
	t.Parallel()
	all, sc := NewSelector(Selection{All: true}), new(Scratch)
	rapid.Check(t, func(t *rapid.T) {
		pairs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) decoded {
			return decoded{rapid.StringN(0, 1, 2).Draw(t, "n"), rapid.StringN(0, 1, 2).Draw(t, "v")}
		}), insertionSortMax, 64).Draw(t, "pairs")
		got, _ := all.Append(nil, spellQuery(t, pairs), nil, &wide, sc)
		if want := "?" + oracleCanonical(pairs); string(got) != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestAppend_AllocatesNothing(t *testing.T) {
	lim, sc, dst := DefaultQueryBounds(), new(Scratch), make([]byte, 0, 4096)
	all := NewSelector(Selection{All: true, Ignore: []string{"utm_*"},
		Normal: Normalization{Integer: IntegerDecimal, Duplicates: DuplicatesLast}})
	id := NewSelector(Selection{Names: []Param{{Name: "id"}}})
	each := NewSelector(Selection{Names: []Param{{Name: "id", Normal: Normalization{Duplicates: DuplicatesEach}}}})
	many := strings.Repeat("b=2&a=%41&", 100)
	for _, raw := range []string{"page=2&ref=home", "id=42&page=2&lang=en", "id=3&id=1&id=2", many,
		many + many + many} {
		for _, s := range []*Selector{&all, &id, &each} {
			run := func() {
				var n int
				dst, n = s.Append(dst[:0], raw, nil, &lim, sc)
				for k := 1; k < n; k++ {
					dst = sc.AppendKey(dst, k)
				}
			}
			run()
			if n := testing.AllocsPerRun(50, run); n != 0 {
				t.Errorf("%.40q: %v allocations", raw, n)
			}
		}
	}
}

// Memory that a long query has made grow is kept, also if the result is short. Not parallel, as above.
func TestAppend_KeepsGrownMemory(t *testing.T) {
	lim, sc := DefaultQueryBounds(), new(Scratch)
	each := NewSelector(Selection{Names: []Param{{Name: "id", Normal: Normalization{Duplicates: DuplicatesEach}}}})
	for _, raw := range []string{"id=1&id=2&id=3&id=4&id=5", strings.Repeat("id=1&", 200),
		"id=" + strings.Repeat("x", 300)} {
		dst := make([]byte, 0, 8)
		run := func() { dst, _ = each.Append(dst[:0], raw, nil, &lim, sc) }
		run()
		if n := testing.AllocsPerRun(50, run); n != 0 {
			t.Errorf("%.40q: %v allocations", raw, n)
		}
	}
}

func FuzzAppend(f *testing.F) {
	for _, raw := range []string{"", "a=1&b=2", "b&a;c=%zz&%", "=&=&==", "a=%4", "+=+&%2b=%20", "\xff=\x00"} {
		f.Add(raw)
	}
	all, few, sc := NewSelector(Selection{All: true}), NewSelector(Selection{Names: []Param{{Name: "a"}}}), new(Scratch)
	f.Fuzz(func(t *testing.T, raw string) {
		pairs := oraclePairs(raw)
		if got, want := params(&all, raw, wide), oracleCanonical(pairs); got != want {
			t.Errorf("all of %q = %q, want %q", raw, got, want)
		}
		var kept []decoded
		for _, p := range pairs {
			if p.name == "a" {
				kept = append(kept, p)
			}
		}
		if got, want := params(&few, raw, wide), oracleCanonical(kept); got != want {
			t.Errorf("a of %q = %q, want %q", raw, got, want)
		}
		lim := QueryBounds{Pairs: 4, NameBytes: 3, ValueBytes: 3, QueryBytes: 64}
		if got, n := all.Append([]byte("r"), raw, nil, &lim, sc); len(got) > 1+4*(1+9+1+9) && n > 0 {
			t.Errorf("%q: the limits let %q pass", raw, got)
		}
	})
}

// A selector reads a query in the spelling of its upstream.
func TestSelector_ReadsSpellingOfUpstream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		syntax QuerySyntax
		want   string
	}{{QuerySyntax{}, "%3Fa=1%3Bb%3D2&c=3"}, {QuerySyntax{Question: true}, "a=1%3Bb%3D2&c=3"},
		{QuerySyntax{Semicolon: SemicolonDrop}, "c=3"}} {
		lim := QueryBounds{Pairs: 10, NameBytes: 100, ValueBytes: 100, QueryBytes: 100}
		s := NewSelector(Selection{All: true, Spelling: c.syntax})
		got, _ := s.Append(nil, "?a=1;b=2&c=3", nil, &lim, new(Scratch))
		if !strings.HasSuffix(string(got), c.want) {
			t.Errorf("%+v: %q, want %q", c.syntax, got, c.want)
		}
	}
}
