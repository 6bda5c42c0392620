package rules

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
)

// tabled are the structs whose fields the tables of docs/rules.md and docs/evasion.md have, by the mark before the
// table.
var tabled = map[string]reflect.Type{
	"Set": reflect.TypeFor[document](), "Rule": reflect.TypeFor[rule.Rule](), "Match": reflect.TypeFor[rule.Match](),
	"Param": reflect.TypeFor[rule.Param](), "Hot": reflect.TypeFor[rule.Hot](), "Limit": reflect.TypeFor[rule.Limit](),
	"Cache": reflect.TypeFor[hottype.CachePolicy](), "IP": reflect.TypeFor[rule.IP](),
	"Window": reflect.TypeFor[rule.Window](), "Class": reflect.TypeFor[rule.Class](),
	"Upstream": reflect.TypeFor[rule.Upstream](), "QueryBounds": reflect.TypeFor[rule.QueryBounds](),
	"ParseAs": reflect.TypeFor[rule.ParseAs](), "Override": reflect.TypeFor[Override](),
}

// The tables of the reference have the fields of the structs, all of them and no others.
func TestReferenceHasEveryField(t *testing.T) {
	t.Parallel()
	table := regexp.MustCompile(`(?ms)^<!-- fields: (\w+) -->\n(.*?)^<!-- end -->`)
	name := regexp.MustCompile("`([a-z_0-9]+)`")
	seen := map[string]bool{}
	for _, page := range []string{"rules.md", "evasion.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range table.FindAllStringSubmatch(string(text), -1) {
			typ := tabled[m[1]]
			if typ == nil {
				t.Fatalf("%s: no struct is called %s", page, m[1])
			}
			seen[m[1]] = true
			var have, want []string
			for line := range strings.Lines(m[2]) {
				cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
				for _, n := range name.FindAllStringSubmatch(cell, -1) {
					have = append(have, n[1])
				}
			}
			for _, f := range conf.Fields(typ) {
				want = append(want, f.Name)
			}
			slices.Sort(have)
			slices.Sort(want)
			if !slices.Equal(have, want) {
				t.Errorf("%s, table %s:\nhas  %q\nwant %q", page, m[1], have, want)
			}
		}
	}
	for mark := range tabled {
		if !seen[mark] {
			t.Errorf("no page has a table of the fields of %s", mark)
		}
	}
}
