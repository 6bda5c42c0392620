package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A fault that does not compile shows nothing, and the run that tries it fails for whoever changed its file last.
func TestPlantedFaults_CompileInTheirPackages(t *testing.T) {
	t.Parallel()
	faults, err := load()
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]*typeChecker{}
	for _, dir := range []string{root, filepath.Join(root, "test")} {
		if err := listPackages(dir, checks); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range faults {
		if !strings.HasSuffix(f.file, ".go") || strings.HasSuffix(f.file, "_test.go") {
			continue
		}
		text, err := f.plant(root)
		if err != nil {
			continue // TestFaultsFitTheCode reports it
		}
		check := checks[filepath.Dir(f.file)]
		if check == nil {
			t.Errorf("fault %s: no package of the modules has %s", f.name, f.file)
			continue
		}
		if err := check.with(filepath.Base(f.file), text); err != nil {
			t.Errorf("fault %s does not compile: %v", f.name, err)
		}
	}
}

// typeChecker checks the types of one package with one of its files changed.
type typeChecker struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	parsed                  map[string]*ast.File
	fset                    *token.FileSet
	imports                 types.Importer
}

// listPackages adds the packages of a module, by their folders from the root of the repository.
func listPackages(dir string, checks map[string]*typeChecker) error {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return errors.New(err.Error() + "\n" + stderr.String())
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	exports, fset := map[string]string{}, token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		pkg := &typeChecker{fset: fset, imports: imports}
		if err := dec.Decode(pkg); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		exports[pkg.ImportPath] = pkg.Export
		if rel, err := filepath.Rel(top, pkg.Dir); err == nil && filepath.IsLocal(rel) {
			checks[rel] = pkg
		}
	}
}

// with returns the first error of the package's types if the file name has this text.
func (c *typeChecker) with(name, text string) error {
	if c.parsed == nil {
		c.parsed = map[string]*ast.File{}
		for _, file := range c.GoFiles {
			tree, err := parser.ParseFile(c.fset, filepath.Join(c.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			c.parsed[file] = tree
		}
	}
	changed, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	files := []*ast.File{changed}
	for other, tree := range c.parsed {
		if other != name {
			files = append(files, tree)
		}
	}
	_, err = (&types.Config{Importer: c.imports}).Check(c.ImportPath, c.fset, files, nil)
	return err
}
