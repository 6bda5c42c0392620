package others

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"
)

// row holds the fields of a row of a table by name, as int64, string, time.Duration, or lists of these.
type row map[string]any

func (r row) text(field string) string { s, _ := r[field].(string); return s }

func (r row) number(field string) int64 { n, _ := r[field].(int64); return n }

func (r row) duration(field string) time.Duration { d, _ := r[field].(time.Duration); return d }

func (r row) numbers(field string) (list []int64) {
	for _, v := range r.list(field) {
		n, _ := v.(int64)
		list = append(list, n)
	}
	return list
}

func (r row) list(field string) []any { l, _ := r[field].([]any); return l }

// readTable reads the rows that have a name from a test function in a file of a module. A module is read in its place
// in the cache, so that nothing of it is copied.
func readTable(t *testing.T, file, test string) (rows []row) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == test {
			ast.Inspect(f, func(n ast.Node) bool {
				if fields, ok := n.(*ast.CompositeLit); ok {
					if r := rowOf(fields); r.text("name") != "" {
						rows = append(rows, r)
					}
				}
				return true
			})
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s: %s has no table", file, test)
	}
	return rows
}

func rowOf(fields *ast.CompositeLit) row {
	r := row{}
	for _, e := range fields.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if name, ok := kv.Key.(*ast.Ident); ok {
				r[name.Name] = valueOf(kv.Value)
			}
		}
	}
	return r
}

// valueOf returns the value of an expression of a table, or nil if it is of another kind than a row holds.
func valueOf(e ast.Expr) any {
	switch e := e.(type) {
	case *ast.BasicLit:
		if n, err := strconv.ParseInt(e.Value, 0, 64); err == nil {
			return n
		}
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.SelectorExpr:
		return map[string]any{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute}[e.Sel.Name]
	case *ast.BinaryExpr:
		n, isNumber := valueOf(e.X).(int64)
		if d, ok := valueOf(e.Y).(time.Duration); ok && isNumber && e.Op == token.MUL {
			return time.Duration(n) * d
		}
	case *ast.CompositeLit:
		list := []any{}
		for _, e := range e.Elts {
			list = append(list, valueOf(e))
		}
		return list
	}
	return nil
}
