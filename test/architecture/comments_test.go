package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// settingsPage is made from the settings of the code.
const settingsPage = "docs/settings.md"

// sources holds every Go file of the repository and the names that they declare.
type sources struct {
	files    map[string]*ast.File // by path from the root
	fset     *token.FileSet
	packages map[string]map[string]bool // package name -> names declared at its top level
	used     map[string]map[string]bool // package name -> every identifier of its files
	names    map[string]bool            // every identifier of the code
	words    map[string]bool            // every word of literals, scripts, configurations and the page of settings
	bases    map[string]bool            // base names of all files, of any kind
	paths    map[string]bool            // files of Go and Lua, by path from the root
}

// readSources returns the Go files of all modules, which are parsed once.
func readSources(t *testing.T) *sources {
	t.Helper()
	s, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var parsed = sync.OnceValues(parseSources)

func parseSources() (*sources, error) {
	s := &sources{files: map[string]*ast.File{}, fset: token.NewFileSet(), packages: map[string]map[string]bool{},
		used: map[string]map[string]bool{}, names: map[string]bool{}, words: map[string]bool{},
		bases: map[string]bool{}, paths: map[string]bool{}}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "node_modules"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		s.bases[d.Name()] = true
		ext := path.Ext(name)
		if ext == ".go" || ext == ".lua" {
			s.paths[name] = true
		}
		if ext == ".js" || ext == ".lua" || ext != ".md" && strings.HasPrefix(name, "deploy/") || name == settingsPage {
			text, err := os.ReadFile(filepath.Join(root, name))
			s.addWords(string(text))
			return err
		}
		if ext != ".go" {
			return nil
		}
		f, err := parser.ParseFile(
			s.fset,
			filepath.Join(root, name),
			nil,
			parser.ParseComments|parser.SkipObjectResolution,
		)
		if err != nil {
			return err
		}
		s.add(name, f)
		return nil
	})
	return s, err
}

func (s *sources) add(name string, f *ast.File) {
	s.files[name] = f
	pkg := strings.TrimSuffix(f.Name.Name, "_test")
	if s.packages[pkg] == nil {
		s.packages[pkg], s.used[pkg] = map[string]bool{}, map[string]bool{}
	}
	for _, d := range f.Decls {
		for _, id := range declared(d) {
			s.packages[pkg][id] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			s.names[n.Name], s.used[pkg][n.Name] = true, true
		case *ast.BasicLit:
			s.addWords(n.Value)
		}
		return true
	})
}

// addWords adds the words of a text.
func (s *sources) addWords(text string) {
	for _, w := range word.FindAllString(text, -1) {
		s.words[w] = true
	}
}

// declared lists the names that a declaration adds to its package.
func declared(d ast.Decl) []string {
	var ids []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			ids = append(ids, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				ids = append(ids, spec.Name.Name)
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					ids = append(ids, id.Name)
				}
			}
		}
	}
	return ids
}

// comments calls do with each comment line of a file and its place.
func (s *sources) comments(f *ast.File, do func(at token.Position, line string)) {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:") {
				continue
			}
			at := s.fset.Position(c.Pos())
			for i, line := range strings.Split(c.Text, "\n") {
				at := at
				at.Line += i
				do(at, line)
			}
		}
	}
}

var (
	word = regexp.MustCompile(`\w+`)
	// quoted is a Go name in back quotes that has a capital inside, so that it is no word of a configuration.
	quoted = regexp.MustCompile("`([A-Za-z]+[a-z][A-Z]\\w*)(?:\\(\\))?`")
	// linked is a link of a comment to a name of its package.
	linked = regexp.MustCompile(`\[\*?([A-Z]\w*[a-z]\w*)(?:\.\w+)*\](?:[^(\[:]|$)`)
	// inner is a word with a capital inside that begins with a small letter, so that it is no word of English.
	inner = regexp.MustCompile(`(?:^|[^\w/"%.\\|-])([a-z]+[A-Z]\w*)\b`)
	// member is a private method or field behind a name.
	member = regexp.MustCompile(`\b([A-Za-z]\w*)\.([a-z]\w*)\b`)
	// fileName is a source file's name.
	fileName = regexp.MustCompile(`\b([\w-]+/)*[\w-]+\.(go|lua)\b`)
)

// TestNamesInCommentsExist finds comments with names of code that no longer exist.
func TestNamesInCommentsExist(t *testing.T) {
	t.Parallel()
	s := readSources(t)
	for _, f := range s.files {
		pkg := strings.TrimSuffix(f.Name.Name, "_test")
		s.comments(f, func(at token.Position, line string) {
			for _, m := range inner.FindAllStringSubmatch(line, -1) {
				if !s.names[m[1]] && !s.words[m[1]] && !slices.Contains(others, m[1]) {
					t.Errorf("%s:%d: no code has the name %s", at.Filename, at.Line, m[1])
				}
			}
			for _, m := range member.FindAllStringSubmatch(line, -1) {
				if s.packages[pkg][m[1]] && !s.used[pkg][m[2]] && !s.bases[m[0]] && !s.words[m[2]] {
					t.Errorf("%s:%d: package %s has no %s", at.Filename, at.Line, pkg, m[0])
				}
			}
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				if !s.names[m[1]] {
					t.Errorf("%s:%d: no code has the name %s", at.Filename, at.Line, m[1])
				}
			}
			for _, m := range linked.FindAllStringSubmatch(line, -1) {
				if !s.packages[pkg][m[1]] {
					t.Errorf("%s:%d: package %s has no %s", at.Filename, at.Line, f.Name, m[1])
				}
			}
			for _, name := range fileName.FindAllString(line, -1) {
				if !s.bases[path.Base(name)] {
					t.Errorf("%s:%d: there is no file %s", at.Filename, at.Line, name)
				}
			}
		})
	}
	for script, text := range listed(t, "*.lua") {
		for i, line := range strings.Split(text, "\n") {
			_, comment, _ := strings.Cut(line, "--")
			for _, name := range fileName.FindAllString(comment, -1) {
				if !s.bases[path.Base(name)] {
					t.Errorf("%s:%d: there is no file %s", script, i+1, name)
				}
			}
		}
	}
}

// TestDocCommentsBeginWithTheName checks that the comments of functions, methods and types begin with the names of
// their subjects, since a rename leaves comments behind. The comment of a field, a constant or a variable need not
// begin with a name, but if it does, then with its own. Tests are named by the law that they show, and their comments
// are free.
func TestDocCommentsBeginWithTheName(t *testing.T) {
	t.Parallel()
	s := readSources(t)
	for name, f := range s.files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				s.checkDoc(t, n.Name, n.Doc)
			case *ast.GenDecl:
				for _, spec := range n.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						doc := ts.Doc
						if doc == nil && len(n.Specs) == 1 {
							doc = n.Doc
						}
						s.checkDoc(t, ts.Name, doc)
					}
				}
			case *ast.Field:
				s.checkSubject(t, n.Names, n.Doc)
			case *ast.ValueSpec:
				s.checkSubject(t, n.Names, n.Doc)
			}
			return true
		})
	}
}

// subject is the first word of a comment that may begin with a name.
var subject = regexp.MustCompile(`^(\w+) (?:is|are|was|has|holds?|bounds?|counts?|names?|records?|returns?|reports?) `)

// checkSubject checks the comment of fields, constants or variables that are declared together.
func (s *sources) checkSubject(t *testing.T, ids []*ast.Ident, doc *ast.CommentGroup) {
	t.Helper()
	m := subject.FindStringSubmatch(doc.Text())
	if m == nil || len(ids) == 0 || !s.names[m[1]] || slices.Contains([]string{"What", "Where", "How"}, m[1]) ||
		strings.ToUpper(m[1]) == m[1] {
		return
	}
	for _, id := range ids {
		if id.Name == m[1] {
			return
		}
	}
	t.Errorf("%s: the comment of %s begins with %q", s.fset.Position(ids[0].Pos()), ids[0].Name, m[1])
}

func (s *sources) checkDoc(t *testing.T, id *ast.Ident, doc *ast.CommentGroup) {
	t.Helper()
	words := strings.Fields(doc.Text())
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	if first := strings.TrimSuffix(strings.TrimRight(words[0], ",:."), "'s"); first != id.Name {
		t.Errorf("%s: the comment of %s begins with %q", s.fset.Position(id.Pos()), id.Name, words[0])
	}
}
