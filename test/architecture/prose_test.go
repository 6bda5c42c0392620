package architecture

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// construction is a form of words that stands for the name of a thing. The English of the Go field has each of them in
// few comments, so that a share bounds them and no list of exceptions is needed.
type construction struct {
	name string
	form *regexp.Regexp
	// before and after match the texts beside which the form is good English, or are nil.
	before, after *regexp.Regexp
}

const wh = `(?:what|whether|how|when|where|which|who|whose|why|since|until|from when|since when|after how|by which|` +
	`in how|of which|as of|so many)`

// form makes a construction. The texts besides are what may stand before it and after it, "" for nothing.
func form(name, form, before, after string) construction {
	c := construction{name: name, form: regexp.MustCompile(form)}
	if before != "" {
		c.before = regexp.MustCompile(`(?:` + before + `)$`)
	}
	if after != "" {
		c.after = regexp.MustCompile(`^(?:` + after + `)`)
	}
	return c
}

var constructions = []construction{
	form("is whether, of a function", `^\w+ (?:is|are|was) `+wh+`\b`, "", ""),
	form("is what", `\b(?:is|are|was|were|be) what\b`, "", ""),
	form("what, for a noun", `\b[Ww]hat (?:is|has|was|are|were|no|it|a|an|the|they|others?|this|that|cannot|can|came|`+
		`comes|goes|went|stays?|holds?|waits?|counts?|remains?|matters|follows|lies|leaves|belongs|does not|did not|`+
		`only|one|each|every)\b`,
		`(?:matter|exactly|about|of|by|from|for|in|on|to|than|but|with|all|is|are|was|were|be) `, ""),
	form("of what", `\b(?:of|by|from|for|in|on|to|than|but|with|all) what\b`, "",
		` (?:happen|kind|type|sort|order|version|was said)`),
	form("that of, those of", `\b(?:that of|those (?:of|that|who|whose|which))\b`, "", ` calling`),
	form("the one that", `\b(?:the ones? (?:that|of|before|after|which)|one that is)\b`, "", ""),
	form("of one", `\b(?:of|from|with|by|than) (?:one|others|none|another)(?:[,.;:)]|$| (?:that|is|are|of|in)\b)`,
		"", ""),
	form("none, nobody", `\b(?:is|are|has|have|for|makes?|leaves?) none\b|: none\b|`+
		`\b(?:nobody|whoever|whatever|somebody|everybody|anybody)\b`, `there `, ` of`),
	form("gives", `\b(?:gives|is given|are given)\b`, "", ` (?:up|in)\b`),
	form("says, tells, hears", `\b(?:says? (?:so|what|who|of|no|that|which|nothing)|`+
		`tells? (?:of|what|that|who|the|it|them|a)|hears?|heard (?:of|from))\b`, "", ""),
	form("is no, as it is", `\b(?:is|are) no \w+(?:[,.;:]|$)|`+
		`\b(?:as|where|if) (?:it|they|there) (?:is|are|was|were)(?:[,.;:]|$)`, `there `, ""),
	form("who asks", `\bwho (?:asks?|has|have|cannot|can|reads?|wants?|comes?|waits?|stands?|knows?|sends?)\b`, "", ""),
	form("so many", `\b(?:so many|so much|as ever|anew|is to be|are to be|be it|for want of|for its own|takes? note|`+
		`goes by|go by|lets? (?:time|seconds))\b`, "", ""),
}

// fieldForms are forms that are good English of a field or a constant: it is no function that could report.
var fieldForms = regexp.MustCompile(`^\w+ (?:is|was) (?:when|whether|how (?:long|often|many|much|far)|where) `)

// constructionsIn returns the names of the constructions in a text. ofFunc is true if the text describes a function.
func constructionsIn(text string, ofFunc bool) (found []string) {
	for i := range constructions {
		c := &constructions[i]
		if i == 0 && !ofFunc && fieldForms.MatchString(text) {
			continue
		}
		for _, at := range c.form.FindAllStringIndex(text, -1) {
			if (c.before == nil || !c.before.MatchString(text[:at[0]])) &&
				(c.after == nil || !c.after.MatchString(text[at[1]:])) {
				found = append(found, c.name)
				break
			}
		}
	}
	return found
}

// tallied holds the number of texts of a kind that were read, and the texts that a measure found, with their places.
type tallied struct {
	n    int
	hits []string
}

func (c *tallied) add(hit bool, at, text string) {
	c.n++
	if hit {
		c.hits = append(c.hits, at+": "+text)
	}
}

// percent returns the share of the texts that a measure found.
func (c *tallied) percent() float64 { return 100 * float64(len(c.hits)) / float64(max(c.n, 1)) }

// prose holds the tallies of each measure, by the folder of a text; "" is the whole tree.
type prose map[string]map[string]*tallied

func (p prose) add(measure, file string, hit bool, at, text string) {
	for _, room := range []string{"", roomOf(file)} {
		if p[measure] == nil {
			p[measure] = map[string]*tallied{}
		}
		if p[measure][room] == nil {
			p[measure][room] = &tallied{}
		}
		p[measure][room].add(hit, at, text)
	}
}

// roomOf returns the folder of a package, without folders that one package has for itself.
func roomOf(file string) string {
	parts := strings.Split(path.Dir(file), "/")
	return strings.Join(parts[:min(len(parts), 3)], "/")
}

// isOfTests reports whether a Go file is read by people who test, and not by people who use or change the product.
func isOfTests(file string) bool {
	return strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") ||
		strings.HasPrefix(file, "bench/") || strings.Contains(file, "/testing/")
}

// measureGo tallies the comments, names and tests of the Go files.
func measureGo(s *sources) prose {
	p := prose{}
	declaredIn := map[string]map[string]bool{} // by folder, in lower case
	type test struct{ file, name, at string }
	var tests []test
	for _, file := range slices.Sorted(maps.Keys(s.files)) {
		f, dir := s.files[file], path.Dir(file)
		if strings.Contains(file, "testdata/") || ast.IsGenerated(f) {
			continue
		}
		if declaredIn[dir] == nil {
			declaredIn[dir] = map[string]bool{}
		}
		kind := "code"
		if isOfTests(file) {
			kind = "tests"
		}
		place := func(n ast.Node) string { return fmt.Sprintf("%s:%d", file, s.fset.Position(n.Pos()).Line) }
		ofFuncs := map[*ast.CommentGroup]bool{}
		for _, d := range f.Decls {
			name, doc, fn := "", (*ast.CommentGroup)(nil), false
			switch d := d.(type) {
			case *ast.FuncDecl:
				name, doc, fn = d.Name.Name, d.Doc, true
				ofFuncs[doc] = doc != nil
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						name, doc = ts.Name.Name, ts.Doc
						if doc == nil && len(d.Specs) == 1 {
							doc = d.Doc
						}
						declaredIn[dir][strings.ToLower(name)] = true
						if kind == "code" && doc != nil {
							p.add("doc comments", file, !describes(name, false, textOf(doc)), place(ts), textOf(doc))
						}
					}
				}
				continue
			}
			if name == "" {
				continue
			}
			if isTest := kind == "tests" && strings.HasSuffix(file, "_test.go") && testName.MatchString(name); isTest {
				tests = append(tests, test{file, name, place(d)})
				continue
			}
			declaredIn[dir][strings.ToLower(name)] = true
			if kind != "code" {
				continue
			}
			if doc != nil {
				p.add("doc comments", file, !describes(name, fn, textOf(doc)), place(d), textOf(doc))
			}
			if unicode.IsLower(rune(name[0])) && name != "main" && name != "init" {
				unclear := len(wordsOf(name)) == 1 && !slices.Contains(conventional, strings.ToLower(name))
				p.add("names", file, unclear, place(d), name)
			}
		}
		for _, group := range f.Comments {
			text := textOf(group)
			if len(strings.Fields(text)) >= 3 {
				found := constructionsIn(text, ofFuncs[group])
				p.add(kind, file, len(found) > 0, place(group), fmt.Sprintf("[%s] %s", strings.Join(found, ", "), text))
			}
		}
	}
	for _, t := range tests {
		own, words := declaredIn[path.Dir(t.file)], wordsOf(strings.TrimPrefix(t.name, "Test"))
		named := false
		for k := range words {
			begin := strings.ToLower(strings.Join(words[:k+1], ""))
			named = named || len(begin) > 2 && own[begin]
		}
		p.add("test names", t.file, !named && len(words) < 4, t.at, t.name)
	}
	return p
}

var (
	testName = regexp.MustCompile(`^Test[A-Z_]`)
)

// wordsOf returns the words of a Go name.
func wordsOf(name string) (words []string) {
	begin := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && runes[i] != '_' && runes[i-1] != '_' {
			upper := unicode.IsUpper(runes[i])
			if !upper || unicode.IsUpper(runes[i-1]) && (i+1 == len(runes) || !unicode.IsLower(runes[i+1])) {
				continue
			}
		}
		if w := strings.Trim(string(runes[begin:i]), "_"); w != "" {
			words = append(words, w)
		}
		begin = i
	}
	return words
}

// textOf returns the words of a comment, in one line, without directives.
func textOf(group *ast.CommentGroup) string { return strings.Join(strings.Fields(group.Text()), " ") }

var (
	funcVerbs = regexp.MustCompile(`^(?:is (?:like|a|an|the (?:same|default|inverse|entry|HTTP|handler|method|` +
		`implementation)|called|used|equivalent|similar|invoked|safe|intended|not|identical|deprecated|implemented|` +
		`run|shorthand|responsible)\b|has the\b|are like\b|` +
		`(?:can|must|may|will|should|also|does|just|only|tries)\b|\()`)
	isWh      = regexp.MustCompile(`^(?:is|are|was) ` + wh + `\b`)
	typeVerbs = strings.Fields("is are was has can may must contains and describe bound configure hold represent")
)

// describes reports whether a doc comment begins with the name and a verb: of a function with what it does, of a type
// with what it is.
func describes(name string, fn bool, text string) bool {
	words := strings.Fields(text)
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if len(words) < 2 || strings.TrimRight(words[0], ".,:;") != name && !strings.HasPrefix(words[0], name+"[") {
		return false
	}
	rest, verb := strings.Join(words[1:], " "), strings.TrimRight(words[1], ",")
	acts := strings.HasSuffix(verb, "s") && !slices.Contains([]string{"is", "was", "has"}, verb)
	switch {
	case isWh.MatchString(rest):
		return false
	case fn:
		return funcVerbs.MatchString(rest) || acts || verb == "and" || verb == "implements"
	}
	return slices.Contains(typeVerbs, verb) || acts
}

// conventional are names of one word that functions of the standard library and of well-known Go projects have: verbs
// whose object is the receiver or the argument, and things that are returned.
var conventional = strings.Fields(`
accept acquire active add advance all allow and append apply assert at atoi authorize block bootstrap build cancel
check claim clamp cleanup clear clone close commit compile concat connect consume contains copy count deadline decay
declare decode decref delete deliver deref destroy dial dispatch do drain dump encode enqueue eq equal error errorf
escape evict exec execute expect expire explode fail fetch fill find finish floor flush format fprint free generate
get glob grow handle has hash ignore implements inc incref index indirect init insert int64 invalidate isalnum ishex
join key kill len length less lex list listen load lock log logf logger lookup loop marshal match matches max merge
min mix next nop norm normalize notify now ok op open or overflow pack parse peek peer pin ping poll pop prepare print
printf probe prune publish pump push put query quote read readlink record recover register release reload remove
rename render renew replace report reserve reset resize resolve resolver restore retry reverse rotate round run seek
selector send serve set setup shutdown sizeof skip sleep sort split sprintf start stat stop string stringify sub
subscribe sum swap sync trace trim truncate uint16 uint32 uint64 uint8 unescape unhex unlisten unlock unmarshal unpack
unregister unsubscribe unwrap update validate verify wait walk watch wrap write`)

// documentBlocks returns the paragraphs, items and rows of a document with their lines, without code and headings.
func documentBlocks(text string) map[int]string {
	blocks := map[int]string{}
	inCode, begin := false, 0
	var current []string
	end := func() {
		if len(current) > 0 {
			blocks[begin] = strings.Join(current, " ")
		}
		current = nil
	}
	for i, line := range strings.Split(text, "\n") {
		s := strings.TrimSpace(line)
		fence := strings.HasPrefix(s, "```")
		if fence {
			inCode = !inCode
		}
		starts := slices.ContainsFunc([]string{"#", "|", "- ", "* ", "<"}, func(mark string) bool {
			return strings.HasPrefix(s, mark)
		})
		if inCode || fence || s == "" || starts {
			end()
		}
		if inCode || fence || s == "" || s[0] == '#' || s[0] == '<' {
			continue
		}
		if current == nil {
			begin = i + 1
		}
		current = append(current, strings.TrimLeft(s, "|*- "))
	}
	end()
	return blocks
}

// commentBlocks returns the comments of a script with their lines: runs of whole lines, and comments behind code.
func commentBlocks(text, mark string) map[int]string {
	blocks := map[int]string{}
	begin := 0
	for i, line := range strings.Split(text, "\n") {
		s := strings.TrimSpace(line)
		switch at := strings.Index(line, " "+mark+" "); {
		case strings.HasPrefix(s, mark):
			if begin == 0 {
				begin = i + 1
			}
			blocks[begin] += strings.TrimPrefix(s, mark)
			continue
		case at >= 0 && !strings.ContainsAny(line[at:], "\"'`"):
			blocks[i+1] = line[at+len(mark)+2:]
		}
		begin = 0
	}
	return blocks
}

// proseLimits are the largest shares in percent. The limits of comments and documents are near the best of the Go
// field: below about two in a hundred the constructions find good English.
var proseLimits = map[string]float64{
	"code": 2.5, "tests": 2.5, "lua": 4, "js": 4, "documents": 4, "doc comments": 8, "names": 5, "test names": 12,
}

const (
	// proseRoom is the number of texts from which on a folder is measured by itself.
	proseRoom = 40
	// proseOfRoom is how many times the limit of the tree a folder may have.
	proseOfRoom = 2
)

// Comments, names, tests and documents read as those of the standard library and of well-kept Go projects do: whole
// sentences that name their subject.
func TestProse(t *testing.T) {
	t.Parallel()
	p := measureGo(readSources(t))
	for kind, patterns := range map[string][]string{"lua": {"*.lua"}, "js": {"*.js"}} {
		mark := map[string]string{"lua": "--", "js": "//"}[kind]
		for name, text := range listed(t, patterns...) {
			for line, block := range commentBlocks(text, mark) {
				if found := constructionsIn(block, false); len(strings.Fields(block)) >= 3 {
					p.add(kind, name, len(found) > 0, fmt.Sprintf("%s:%d", name, line), block)
				}
			}
		}
	}
	for name, text := range listed(t, "*.md", ":!CHANGELOG.md") {
		if strings.Contains(name, "/") && !strings.HasPrefix(name, "docs/") {
			continue
		}
		for line, block := range documentBlocks(madeParts.ReplaceAllStringFunc(text, blank)) {
			if found := constructionsIn(block, false); len(strings.Fields(block)) >= 3 {
				p.add("documents", name, len(found) > 0, fmt.Sprintf("%s:%d", name, line),
					fmt.Sprintf("[%s] %s", strings.Join(found, ", "), block))
			}
		}
	}
	for measure, limit := range proseLimits {
		for _, room := range slices.Sorted(maps.Keys(p[measure])) {
			c, most := p[measure][room], limit
			if room != "" {
				most *= proseOfRoom
			}
			t.Logf("%-14s %-34s %5.1f %% of %d", measure, room, c.percent(), c.n)
			if (room == "" || c.n >= proseRoom) && c.percent() > most {
				t.Errorf("%s in %q: %.1f %% of %d, at most %v %%:\n%s", measure, room, c.percent(), c.n, most,
					strings.Join(c.hits[:min(len(c.hits), 20)], "\n"))
			}
		}
	}
}

// Each construction is found where it stands for a name, and not where it is good English.
func TestConstructionsIn_TellsDialectFromEnglish(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"of is what a key used to have in so many seconds, at most", "find is whether the key is known",
		"what is left goes to the next", "made of what it reads", "its size is that of the set", "those who ask again",
		"the one that is newest", "longer than others", "returns the rule, nil: none", "it gives the number of keys",
		"the log says what failed", "a key which is no string.", "who asks first is first", "the counters begin anew",
	} {
		if found := constructionsIn(text, true); len(found) == 0 {
			t.Errorf("nothing is found in %q", text)
		}
	}
	for _, text := range []string{
		"baselineOf returns an upper bound of the count of a key", "isKnown reports whether the key is known",
		"there is none of that kind", "Run gives up after a second", "no matter what the reply is",
	} {
		if found := constructionsIn(text, true); len(found) > 0 {
			t.Errorf("%v is found in %q", found, text)
		}
	}
	if !describes("find", true, "find returns the rule of a key.") ||
		describes("find", true, "find is the rule of a key.") ||
		!describes("rule", false, "rule is a rule of the file.") || describes("rule", false, "A key and its rule.") {
		t.Error("doc comments are misjudged")
	}
	for name, want := range map[string]int{
		"of": 1, "countsOf": 2, "isHTTPGate": 3, "TestStream_OpensLate": 4, "ID": 1,
	} {
		if got := wordsOf(name); len(got) != want {
			t.Errorf("%s has the words %q, want %d", name, got, want)
		}
	}
}
