package architecture

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
	"testing"
)

// TestPublicDocs_NameNoInternalPackage checks what go doc prints of the library and its adapters: users cannot look up
// a name of an internal package, neither in a signature nor behind an alias, a constant or a field.
func TestPublicDocs_NameNoInternalPackage(t *testing.T) {
	t.Parallel()
	s, checked := readSources(t), 0
	for name, f := range s.files {
		public := strings.HasPrefix(name, "hotparam/") || strings.HasPrefix(name, "adapters/")
		if !public || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/internal/") {
			continue
		}
		internal := internalImports(f)
		ast.FileExports(f)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				fn.Body = nil
			}
			checked++
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] {
						t.Errorf("%s: the documentation shows users %s.%s of an internal package: define it in package "+
							"hottype or here", s.fset.Position(n.Pos()), x.Name, n.Sel.Name)
					}
				case *ast.Comment:
					if strings.Contains(n.Text, "internal/") {
						t.Errorf("%s: the documentation names an internal package", s.fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
		if strings.Contains(f.Doc.Text(), "internal/") {
			t.Errorf("%s: the package comment names an internal package", name)
		}
	}
	if checked < 100 {
		t.Errorf("%d public declarations are checked, want at least 100", checked)
	}
}

// internalImports returns the names by which a file calls internal packages.
func internalImports(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, imp := range f.Imports {
		imported, err := strconv.Unquote(imp.Path.Value)
		if err != nil || !strings.Contains(imported, "/internal/") {
			continue
		}
		name := path.Base(imported)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = true
	}
	return names
}
