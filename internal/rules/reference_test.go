package rules

import (
	"flag"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
)

var update = flag.Bool("update", false, "write the tables of docs/rules.md and docs/evasion.md")

// tabled are the structs whose fields the tables of docs/rules.md and docs/evasion.md have, by the mark before the
// table.
var tabled = map[string]reflect.Type{
	"Set": reflect.TypeFor[rule.Set](), "Rule": reflect.TypeFor[rule.Rule](), "Match": reflect.TypeFor[rule.Match](),
	"Param": reflect.TypeFor[rule.Param](), "Hot": reflect.TypeFor[rule.Hot](), "Limit": reflect.TypeFor[rule.Limit](),
	"Cache": reflect.TypeFor[hottype.CachePolicy](), "IP": reflect.TypeFor[rule.IP](),
	"Window": reflect.TypeFor[rule.Window](), "Class": reflect.TypeFor[rule.Class](),
	"Upstream": reflect.TypeFor[rule.Upstream](), "QueryBounds": reflect.TypeFor[rule.QueryBounds](),
	"ParseAs": reflect.TypeFor[rule.ParseAs](), "Override": reflect.TypeFor[rule.Override](),
}

// The tables of the reference are made from the fields, their tags and their doc comments.
func TestReferenceIsThatOfTheStructs(t *testing.T) {
	t.Parallel()
	table := regexp.MustCompile(`(?ms)(^<!-- fields: (\w+) -->\n)(.*?)(^<!-- end -->)`)
	docs := fieldDocs(t)
	seen := map[string]bool{}
	for _, page := range []string{"rules.md", "evasion.md"} {
		path := "../../docs/" + page
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made := table.ReplaceAllStringFunc(string(text), func(old string) string {
			m := table.FindStringSubmatch(old)
			if tabled[m[2]] == nil {
				t.Fatalf("%s: no struct is called %s", page, m[2])
			}
			seen[m[2]] = true
			return m[1] + tableOf(t, page, m[2], string(text), docs) + m[4]
		})
		if *update {
			if err := os.WriteFile(path, []byte(made), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if made != string(text) {
			t.Errorf("%s is not what the structs say: go test ./internal/rules -run Reference -update", path)
		}
	}
	for mark := range tabled {
		if !seen[mark] {
			t.Errorf("no page has a table of the fields of %s", mark)
		}
	}
}

// fieldDocs are the doc comments of the fields of structs, by package, type and field.
func fieldDocs(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, dir := range []string{"../../hotparam/rule", "../../hotparam/hottype", "."} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := goparser.ParseFile(token.NewFileSet(), name, nil, goparser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				typ, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := typ.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						for _, name := range field.Names {
							docs[f.Name.Name+"."+typ.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
						}
					}
				}
				return false
			})
		}
	}
	return docs
}

var (
	aboutDefault = regexp.MustCompile(`(?:^| )(?:Default: ([^.].*)|((?:Required|One of)[^.]*))\.$`)
	otherPage    = regexp.MustCompile(`docs/([a-z-]+\.md)(#[\w-]+)?`)
)

// tableOf is the table of a struct's fields. Of fields with a section of their own, at the top of the file or of a
// rule, it has a link; traits have a column of values.
func tableOf(t *testing.T, page, mark, text string, docs map[string]string) string {
	var b strings.Builder
	traits := mark == "ParseAs"
	if traits {
		b.WriteString("| trait | values, the first is plain | meaning |\n|---|---|---|\n")
	} else {
		b.WriteString("| field | meaning | default |\n|---|---|---|\n")
	}
	for _, f := range conf.Fields(tabled[mark]) {
		owner := tabled[mark]
		for _, i := range f.Index()[:len(f.Index())-1] {
			owner = owner.Field(i).Type
		}
		meaning := docs[owner.String()+"."+f.Label]
		if meaning == "" {
			t.Errorf("field %s of %s has no doc comment", f.Label, owner)
		}
		value := valueText(&f)
		if m := aboutDefault.FindStringSubmatch(meaning); m != nil {
			value = m[1]
			if m[2] != "" {
				value = strings.ToLower(m[2][:1]) + m[2][1:]
			}
			meaning = strings.TrimSuffix(meaning, m[0])
		}
		if heading := "# `" + f.Name + "`\n"; (mark == "Set" || mark == "Rule") && strings.Contains(text, heading) {
			meaning += " [Below](#" + f.Name + ")."
		}
		meaning = otherPage.ReplaceAllStringFunc(strings.ReplaceAll(meaning, "|", `\|`), func(s string) string {
			m := otherPage.FindStringSubmatch(s)
			if m[1] == page {
				return "[below](" + m[2] + ")"
			}
			return "[" + m[1] + "](" + m[1] + m[2] + ")"
		})
		if traits {
			words := "the names above"
			if list := f.Tag.Get("words"); list != "" {
				words = "`" + strings.ReplaceAll(list, ",", "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, words, meaning)
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, meaning, value)
	}
	return b.String()
}

// valueText is the default of a field by its tags and type.
func valueText(f *conf.Field) string {
	switch value := f.Tag.Get("default"); {
	case f.Tag.Get("required") != "":
		return "required"
	case value != "":
		return "`" + value + "`"
	case f.Type == reflect.TypeFor[time.Duration]():
		return "`0s`"
	case f.Type.Kind() == reflect.Bool:
		return "`false`"
	}
	return "none"
}
