package architecture

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// library holds the packages that documents name. The compiler's export data has the root module and its dependencies;
// the source has adapters/, which are modules of their own.
type library struct {
	*sources
	exported  types.Importer
	byName    map[string][]*types.Package
	declaring map[string][]*types.Package // by a name that they declare
}

func readLibrary(t *testing.T) *library {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}",
		"./hotparam/...", "./internal/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	l := &library{sources: readSources(t), byName: map[string][]*types.Package{},
		declaring: map[string][]*types.Package{}}
	exports := map[string]string{}
	l.exported = importer.ForCompiler(l.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	for p := range exports {
		if strings.HasPrefix(p, module) || !strings.Contains(p, "internal/") && !strings.HasPrefix(p, "vendor/") {
			l.add(t, p)
		}
	}
	adapters, err := filepath.Glob(root + "/adapters/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range adapters {
		l.add(t, module+"/adapters/"+filepath.Base(dir))
	}
	return l
}

func (l *library) add(t *testing.T, path string) {
	t.Helper()
	p, err := l.Import(path)
	if err != nil {
		t.Fatal(err)
	}
	l.byName[p.Name()] = append(l.byName[p.Name()], p)
	for _, name := range p.Scope().Names() {
		l.declaring[name] = append(l.declaring[name], p)
	}
}

// Import implements types.Importer. A package of an adapter's dependencies is an error. An expression of such a package
// then has no type, and the type checker reports nothing about it.
func (l *library) Import(path string) (*types.Package, error) {
	dir := strings.TrimPrefix(path, module+"/")
	if !strings.HasPrefix(dir, "adapters/") {
		return l.exported.Import(path)
	}
	var files []*ast.File
	for name, f := range l.files {
		if strings.HasPrefix(name, dir+"/") && !strings.HasSuffix(name, "_test.go") {
			files = append(files, f)
		}
	}
	conf := types.Config{Importer: l, IgnoreFuncBodies: true, Error: func(error) {}}
	p, _ := conf.Check(path, l.fset, files, nil)
	return p, nil
}

// preamble declares the names that the code of documents uses and does not declare.
const preamble = `package documents

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"time"

	"connectrpc.com/connect"
	"example.com/shop/shopv1"
	"example.com/shop/shopv1connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"

	hotparamconnect "github.com/hotparam/pipeline/adapters/connect"
	hotparamgrpc "github.com/hotparam/pipeline/adapters/grpc"
	hotparamotel "github.com/hotparam/pipeline/adapters/otel"
	hotparamprom "github.com/hotparam/pipeline/adapters/prometheus"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/admin"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/redislimit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/hotparam/shared"
)

var (
	ctx     context.Context
	p       *hotparam.Pipeline
	rules   *hotparam.Rules
	mux     *http.ServeMux
	server  *http.Server
	app, r  http.Handler
	rdb     redis.UniversalClient
	store   limit.Store
	service any
)

func _() {
//line %s:%d
%s
}
`

// Documents show code that compiles, and documents and comments name only names that exist.
func TestCodeOfDocumentsExists(t *testing.T) {
	t.Parallel()
	l := readLibrary(t)
	for doc, text := range documents(t) {
		if doc == "CHANGELOG.md" {
			continue // history
		}
		l.compileBlocks(t, doc, text)
		l.findNames(t, doc, text)
		l.findFiles(t, doc, text)
	}
	for file, f := range l.files {
		l.comments(f, func(at token.Position, line string) {
			for _, name := range selector.FindAllString(line, -1) {
				if ast.IsExported(name) && strings.HasSuffix(file, "_test.go") {
					continue // the library has no types of tests
				}
				if !l.has(name) || !l.knows(f, name) {
					t.Errorf("%s:%d: no code has %s", at.Filename, at.Line, name)
				}
			}
		})
	}
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// compileBlocks compiles each block of Go code of a document as the body of a function. An ellipsis stands for code
// that a reader fills in.
func (l *library) compileBlocks(t *testing.T, doc, text string) {
	t.Helper()
	conf := types.Config{Importer: l, Error: func(err error) {
		// A name that is not used is a soft error.
		if e, ok := errors.AsType[types.Error](err); ok && !e.Soft && !strings.HasPrefix(e.Msg, "could not import") {
			t.Error(err)
		}
	}}
	for _, at := range goBlock.FindAllStringSubmatchIndex(text, -1) {
		code := strings.NewReplacer("{…}", "{}", "…", "nil").Replace(text[at[2]:at[3]])
		code = fmt.Sprintf(preamble, doc, strings.Count(text[:at[2]], "\n")+1, code)
		f, err := parser.ParseFile(l.fset, "", code, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		_, _ = conf.Check("documents", l.fset, []*ast.File{f}, nil) // conf reports its errors
	}
}

var (
	// inline is code within a line of a document.
	inline = regexp.MustCompile("`[^`\n]+`")
	// selector is a Go name behind a package, a type or a variable.
	selector = regexp.MustCompile(`\b[A-Za-z]\w*(?:\.[A-Z]\w*[a-z]\w*)+`)
	// setting is a setting, or a field of a rule.
	setting = regexp.MustCompile(`^[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+$`)
	// capital is a name with a capital and small letters, or the call of a function.
	capital = regexp.MustCompile(`^\*?([a-z]*[A-Z]\w*[a-z]\w*)(?:\(\))?$`)
)

// others are names of other programs and libraries, alone or before a dot.
var others = []string{
	"hotparam.Counts", "protobuf", // protobuf
	"v3", "RateLimitResponse", "RateLimitDescriptor", "HeaderValueOption", // Envoy
	"shopv1connect",               // the service of an example
	"X",                           // a header field
	"x.to_i",                      // Ruby
	"RateLimiter", "getParameter", // Java
	"v1", "otel", // services of examples, OpenTelemetry
	"AbortSignal",   // JavaScript
	"Pre", "RealIP", // echo and chi
	"RemoveExtraSlash",                               // gin
	"CaseSensitive", "StrictRouting", "UnescapePath", // fiber
	"movingSum",                // Graphite
	"reserveEarliestAvailable", // Guava
}

// findNames looks up the names in the code within the lines of a document.
func (l *library) findNames(t *testing.T, doc, text string) {
	t.Helper()
	for _, code := range inline.FindAllString(block.ReplaceAllString(text, ""), -1) {
		code = strings.Trim(code, "`")
		for _, name := range selector.FindAllString(code, -1) {
			if !l.has(name) {
				t.Errorf("%s: no code has %s", doc, name)
			}
		}
		if setting.MatchString(code) && !l.bases[code] {
			for w := range strings.SplitSeq(code, ".") {
				if !l.words[w] && !slices.Contains(others, code) {
					t.Errorf("%s: there is no setting %s", doc, code)
				}
			}
		}
		m := capital.FindStringSubmatch(code)
		if m != nil && !l.names[m[1]] && !l.words[m[1]] && !slices.Contains(others, m[1]) {
			t.Errorf("%s: no code has the name %s", doc, m[1])
		}
	}
}

var (
	// item separates paragraphs, rows and the items of lists.
	item = regexp.MustCompile(`\n\s*\n|\n\||\n\s*(?:-|\d+\.) `)
	// source is the path or the base name of a file of code.
	source = regexp.MustCompile(`^(?:[\w-]+/)*[a-z][\w-]*\.(?:go|lua)$`)
)

// findFiles looks up the files of code that a document names. A base name alone belongs to a folder that the same
// paragraph, row or item names, if there is one.
func (l *library) findFiles(t *testing.T, doc, text string) {
	t.Helper()
	for _, part := range item.Split(block.ReplaceAllString(text, ""), -1) {
		var files, folders []string
		for _, code := range inline.FindAllString(part, -1) {
			code = strings.Trim(code, "`")
			if source.MatchString(code) {
				if !strings.Contains(code, "NAME") { // a reader chooses it
					files = append(files, code)
				}
				code = path.Dir(code)
			}
			if strings.Contains(code, "/") {
				folders = append(folders, strings.TrimSuffix(code, "/"))
			}
		}
		for _, file := range files {
			if !l.holds(file, folders) {
				t.Errorf("%s: there is no file %s in %q", doc, file, folders)
			}
		}
	}
}

var (
	// selection is the pattern of a flag, or of a variable of .ci/raced, that selects tests or benchmarks.
	selection = regexp.MustCompile(`(?:-(?:test\.)?(?:run|bench)[ =]|\blarge=)(?:'([^']+)'|"([^"]+)"|([\w$^|.*]+))`)
	// testMention is the name of a test or benchmark, or the beginning of names.
	testMention = regexp.MustCompile(`(?:^|[^.\w])((?:Test|Fuzz|Benchmark)[A-Z]\w+)`)
	// slowTests is a row of the table of slow tests: seconds, package and names without "Test".
	slowTests = regexp.MustCompile(`(?m)^\| [\d, ]+ \| [\w/]+: ([\w, ]+) \|`)
)

// TestSelections_MatchTests finds patterns and names of tests that no test has, in documents, scripts and lists. A
// pattern that matches nothing passes in silence.
func TestSelections_MatchTests(t *testing.T) {
	t.Parallel()
	var tests []string
	s := readSources(t)
	for name, f := range s.files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && strings.HasSuffix(name, "_test.go") {
				tests = append(tests, d.Name.Name)
			}
		}
	}
	matches := func(pattern string) bool {
		re, err := regexp.Compile(pattern)
		return err == nil && slices.ContainsFunc(tests, re.MatchString)
	}
	for _, f := range s.files {
		s.comments(f, func(at token.Position, line string) {
			for _, m := range testMention.FindAllStringSubmatch(line, -1) {
				if !matches("^" + m[1]) {
					t.Errorf("%s:%d: there is no %s", at.Filename, at.Line, m[1])
				}
			}
		})
	}
	for file, text := range listed(t, "*.md", "*.sh", "Makefile", ".ci/*", "test/skips/*.txt", ":!CHANGELOG.md") {
		for _, m := range selection.FindAllStringSubmatch(text, -1) {
			pattern, _, _ := strings.Cut(m[1]+m[2]+m[3], "/")
			for one := range strings.SplitSeq(pattern, "|") {
				one = strings.TrimRight(strings.TrimLeft(one, "^."), "$")
				if one != "" && !strings.Contains(one, "$") && !matches(one) { // a "$" begins a variable
					t.Errorf("%s: no test matches %s", file, m[0])
				}
			}
		}
		for _, m := range testMention.FindAllStringSubmatch(text, -1) {
			if !matches("^" + m[1]) {
				t.Errorf("%s: there is no %s", file, m[1])
			}
		}
		for _, m := range slowTests.FindAllStringSubmatch(text, -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				if !matches("^Test" + name + "$") {
					t.Errorf("%s: there is no Test%s", file, name)
				}
			}
		}
	}
}

// holds reports whether a file of the repository ends with this path. A base name alone must lie in one of the folders
// that exist, if any do.
func (l *library) holds(file string, folders []string) bool {
	found, inFolder, anyFolder := false, false, false
	for name := range l.paths {
		dir := "/" + path.Dir(name)
		within := slices.ContainsFunc(folders, func(folder string) bool { return strings.HasSuffix(dir, "/"+folder) })
		anyFolder = anyFolder || within
		if name == file || strings.HasSuffix(name, "/"+file) {
			found, inFolder = true, inFolder || within
		}
	}
	return found && (inFolder || !anyFolder || strings.Contains(file, "/"))
}

// has reports whether a chain of names exists, such as a package, a type and a method. The last name behind a variable,
// or behind a third-party package, has to occur anywhere in the code.
func (l *library) has(name string) bool {
	chain := strings.Split(name, ".")
	first, last := chain[0], chain[len(chain)-1]
	if slices.Contains(others, first) || slices.Contains(others, name) || l.packages[first][last] {
		return true
	}
	packages := l.declaring[first]
	if !ast.IsExported(first) {
		packages, chain = l.byName[first], chain[1:]
		if l.packages[first] == nil && l.names[last] {
			return true
		}
	}
	return slices.ContainsFunc(packages, func(p *types.Package) bool { return memberOf(p, chain) })
}

// knows reports whether the first name of a chain is a package, or a name that the code of the file's package uses.
func (l *library) knows(f *ast.File, name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return ast.IsExported(first) || l.byName[first] != nil || l.packages[first] != nil ||
		slices.Contains(others, first) || slices.Contains(others, name) ||
		l.used[strings.TrimSuffix(f.Name.Name, "_test")][first]
}

// memberOf reports whether a package declares the first name, and each one the next as a field or method.
func memberOf(p *types.Package, chain []string) bool {
	object := p.Scope().Lookup(chain[0])
	for _, name := range chain[1:] {
		if object == nil {
			return false
		}
		object, _, _ = types.LookupFieldOrMethod(object.Type(), true, p, name)
	}
	return object != nil
}
