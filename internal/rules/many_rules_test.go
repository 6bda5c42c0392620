package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Rules that an index finds match as they do if all are compared in order.
func TestManyRulesAreFoundAsOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b", "A", "a%20b", "{x}", "{x}", "{x}", "c.d", "x\u00e9"})
		heads := []string{"", "parse_as: express4\n", "parse_as: strict\n", "parse_as: go\n"}
		head := rapid.SampledFrom(heads).Draw(t, "parse_as")
		var text strings.Builder
		var hosts []string
		for i := range rapid.IntRange(fewRoutes, 2*fewRoutes).Draw(t, "rules") {
			path := "/" + strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(t, "path"), "/")
			for n := 0; strings.Contains(path, "{x}"); n++ {
				path = strings.Replace(path, "{x}", fmt.Sprintf("{y%d}", n), 1)
			}
			path += rapid.SampledFrom([]string{"", "", "/", "/{$}"}).Draw(t, "end")
			hosts = append(hosts, fmt.Sprintf("h%d", i%3)) // so that no rule takes all requests of the others
			fmt.Fprintf(&text, "  - {name: r%d, match: {path: %q, hosts: [h%d, i%[1]d]}, params: [id], hot: {rate: 1}}\n",
				i, path, i%3)
		}
		all, err := Parse("all.yaml", []byte(head+"rules:\n"+text.String()))
		if err != nil {
			t.Fatal(err)
		}
		plain := *all
		plain.index.exact, plain.index.openBy, plain.index.open = nil, nil, plain.index.all
		found := func(set *Set, req *hottype.Request) (names []string) {
			for _, m := range set.Match(req, new(Scratch)) {
				names = append(names, m.Rule.Name)
			}
			return names
		}
		for range 20 {
			segments := []string{"a", "b", "A", "%61", "a%20b", "c.d", "q", "", "x%C3%A9", "x\u00e9"}
			path := rapid.SliceOfN(rapid.SampledFrom(segments), 1, 4).Draw(t, "target")
			target := "/" + strings.Join(path, "/") + rapid.SampledFrom([]string{"", "?id=1"}).Draw(t, "query")
			req := &hottype.Request{Method: "GET", Target: target, Host: rapid.SampledFrom(hosts).Draw(t, "host")}
			if got, want := found(all, req), found(&plain, req); !slices.Equal(got, want) {
				t.Fatalf("%s of %s: %q, want %q, with\n%s%s", target, req.Host, got, want, head, text.String())
			}
		}
	})
}

// A rule that receives no request is reported with the first rule that matches its requests, as if every pair was
// compared.
func TestCoveredRulesAreFoundAsOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b", "{x}"})
		end := rapid.SampledFrom([]string{"", "", "", "/", "/{$}", "/{z...}"})
		method, host := rapid.SampledFrom([]string{"GET", "HEAD", "PUT"}), rapid.SampledFrom([]string{"a", "b"})
		var text strings.Builder
		text.WriteString("rules:\n")
		var before []checkedRule
		var want []string
		for i := range rapid.IntRange(1, 8).Draw(t, "rules") {
			path := "/" + strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(t, "path"), "/") + end.Draw(t, "end")
			for n := 0; strings.Contains(path, "{x}"); n++ {
				path = strings.Replace(path, "{x}", fmt.Sprintf("{y%d}", n), 1)
			}
			segs, err := parsePath(path)
			if err != nil {
				t.Fatal(err)
			}
			selects := fmt.Sprintf("path: %q, ", path)
			if rapid.IntRange(0, 9).Draw(t, "any path") == 0 {
				selects, segs = "", nil
			}
			r := checkedRule{i, segs, rapid.SliceOfNDistinct(method, 1, 2, rapid.ID).Draw(t, "methods"),
				rapid.SliceOfNDistinct(host, 0, 1, rapid.ID).Draw(t, "hosts")}
			goesOn := rapid.IntRange(0, 5).Draw(t, "continue") == 0
			fmt.Fprintf(&text, "  - {name: r%d, match: {%smethods: [%s], hosts: [%s]}, params: [id], hot: {rate: 1}, continue: %v}\n",
				i, selects, strings.Join(r.methods, ", "), strings.Join(r.hosts, ", "), goesOn)
			if j := slices.IndexFunc(before, func(early checkedRule) bool { return early.coversRule(r) }); j >= 0 {
				want = append(want, fmt.Sprintf(`rules[%d].match: no request comes here: rule "r%d"`, i, before[j].index))
			}
			if slices.Contains(r.methods, "GET") {
				r.methods = append(r.methods, "HEAD")
			}
			if !goesOn {
				before = append(before, r)
			}
		}
		_, err := Parse("f.yaml", []byte(text.String()))
		var got []string
		for line := range strings.Lines(fmt.Sprint(err)) {
			if at := strings.Index(line, "rules["); at >= 0 && strings.Contains(line, "no request comes here") {
				got = append(got, line[at:strings.Index(line, " line ")])
			}
		}
		for i := range want {
			if i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
				t.Fatalf("%q, want %q, of\n%s%v", got, want, text.String(), err)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q, want %q, of\n%s", got, want, text.String())
		}
	})
}

// Patterns that an index finds hold as they do if all are compared in order.
func TestManyPatternsAreFoundAsOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var list []Override
		piece := rapid.StringMatching("[ab]{0,4}")
		for i := range rapid.IntRange(1, 3*fewPatterns).Draw(t, "patterns") {
			key := rapid.SampledFrom([]string{"", "t?", "t?id="}).Draw(t, "head") +
				strings.Join(rapid.SliceOfN(piece, 2, 4).Draw(t, "pieces"), "*")
			o := Override{ID: fmt.Sprint("o", i), Key: key, Action: ActionBlock}
			if rapid.IntRange(0, 3).Draw(t, "expired") == 0 {
				o.Until = time.Unix(1, 0)
			}
			list = append(list, o)
		}
		o, now := NewOverrides(list[:len(list)/2], list[len(list)/2:]), time.Unix(1e9, 0)
		for range 20 {
			key := []byte(rapid.SampledFrom([]string{"t?id=", "t?", "u?b="}).Draw(t, "resource") +
				rapid.StringMatching("[ab]{0,9}").Draw(t, "value"))
			var want *Override
			matches := func(e *entry) bool { return e.glob.Match(key) && e.holdsAt(now) }
			patterns := slices.Collect(o.patterns.All())
			if i := slices.IndexFunc(patterns, matches); i >= 0 {
				want = &patterns[i].override
			}
			if got := o.Find(key, now); got != want {
				t.Fatalf("%s: %v, want %v of %v", key, got, want, list)
			}
		}
	})
}

// Plain targets are described for up to three parameters in each order, up to a length that a proxy reads, and by a
// bounded number of lines. The gateway asks about all other targets.
func TestPlainTargetsAreBounded(t *testing.T) {
	t.Parallel()
	rule := `  - {name: r%d, match: {path: "/r%[1]d"}, params: [%s], hot: {rate: 1}}` + "\n"
	for _, c := range []struct {
		rules  int
		params string
		lines  int
		last   string // the key of the last line
	}{
		// each order of each choice, one line for targets that are not plain, and one for the targets of no rule
		{1, "a", 2 + 1 + 1, ""}, {1, "a, b", 5 + 1 + 1, ""}, {1, "a, b, c", 16 + 1 + 1, ""},
		{1, "a, b, c, d", 1 + 1, ""},
		{400, "a, b, c, d", 400 + 1, ""}, {401, "a, b, c, d", 401 + 1, AskPlain},
	} {
		text := "rules:\n"
		for i := range c.rules {
			text += fmt.Sprintf(rule, i, c.params)
		}
		set, err := Parse("plain.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		lines := set.Plain().Lines
		if n := len(lines); n != c.lines || lines[n-1].Key != c.last {
			t.Errorf("%d rules of %s: %d lines, the last one %+v", c.rules, c.params, n, lines[n-1])
		}
		if target := lines[0].Target; c.params != "a, b, c, d" && !strings.Contains(target, "(?!.{512})") {
			t.Errorf("%s: of any length: %s", c.params, target)
		}
	}
}

// TestPlainTargetsOfARule: the fields that a gateway has to compare besides the target, and the bytes of a name that
// are plain.
func TestPlainTargetsOfARule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		match, parseAs, params string
		hosts, methods         bool
		asks                   bool   // no target of the rule is plain
		name                   string // class of the bytes of names
	}{
		{match: "path: /a", name: `[\w.~-]`},
		{match: "path: /a, hosts: [a.example]", hosts: true, name: `[\w.~-]`},
		{match: "path: /a, methods: [GET]", methods: true, name: `[\w.~-]`},
		{match: "path: /a", params: "id, header.x-tenant", asks: true},
		{match: "path: /a", parseAs: "parse_as: nginx", name: `[a-z0-9_.~-]`},
		{match: "path: /a", parseAs: "parse_as: php", name: `[\w~-]`},
		{match: "path: /a", parseAs: "parse_as: strict", name: `[a-z0-9_~-]`},
	} {
		set, err := Parse("plain.yaml", fmt.Appendf(nil,
			"%s\nrules:\n  - {name: a, match: {%s}, params: [%s], hot: {rate: 1}}\n", c.parseAs, c.match,
			cmp.Or(c.params, "id")))
		if err != nil {
			t.Fatal(err)
		}
		plain := set.Plain()
		if plain.Hosts != c.hosts || plain.Methods != c.methods {
			t.Errorf("%s: hosts %v, methods %v", c.match, plain.Hosts, plain.Methods)
		}
		if asks := plain.Lines[0].Key == AskPlain; asks != c.asks {
			t.Errorf("%s: %+v", c.match, plain.Lines[0])
		}
		if !strings.Contains(plain.Lines[0].Target, c.name+"++(?:=") && !c.asks {
			t.Errorf("%s %s: no names of %s: %s", c.match, c.parseAs, c.name, plain.Lines[0].Target)
		}
	}
}

// A look-up among many patterns compares few of them.
func BenchmarkManyPatterns(b *testing.B) {
	for _, form := range []string{"topic?id=*%d", "topic?*a*%d*", "t*%d", "*%d"} {
		var list []Override
		for i := range 10_000 {
			key := fmt.Sprintf(form, 100_000+i)
			list = append(list, Override{ID: fmt.Sprint("o", i), Key: key, Action: ActionBlock})
		}
		o, key, now := NewOverrides(list, nil), []byte("topic?id=42&page=107345"), time.Now()
		b.Run(form, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.Find(key, now)
			}
		})
	}
}

// Checking takes time that grows with the rules, not with their square.
func BenchmarkCheckManyRules(b *testing.B) {
	for _, form := range []string{"/p%d", "/p%d/{x}", "/{x}/p%d"} {
		for _, n := range []int{1000, 4000} {
			text := "rules:\n"
			for i := range n {
				text += fmt.Sprintf("  - {name: r%d, match: {path: %q}, params: [id], hot: {rate: 1}}\n", i, fmt.Sprintf(form, i))
			}
			b.Run(fmt.Sprint(form, n), func(b *testing.B) {
				for b.Loop() {
					if _, err := Parse("f.yaml", []byte(text)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
