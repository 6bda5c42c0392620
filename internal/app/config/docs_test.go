package config

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/rules"
)

var update = flag.Bool("update", false, "write the settings into docs/configuration.md")

const (
	docPath = "../../../docs/configuration.md"
	heading = "## Settings of the programs\n"
)

// The table of settings in the document is made from the flags themselves.
func TestDocumentListsEverySetting(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	before, have, ok := strings.Cut(string(body), heading)
	if !ok {
		t.Fatalf("%s has no %q", docPath, heading)
	}
	want := settingsText(t)
	if *update {
		if err := os.WriteFile(docPath, []byte(before+heading+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf("%s is not up to date: go test ./internal/app/config -run Document -update", docPath)
	}
}

// settingsText is the section of the document, one table a section of the file.
func settingsText(t *testing.T) string {
	t.Helper()
	type row struct {
		flag     *kong.Flag
		programs []string
	}
	rows := map[string]*row{}
	for _, p := range []struct {
		name string
		cli  any
	}{{"collector", &Collector{}}, {"aggregator", &Aggregator{}}, {"limiter-sidecar", &Sidecar{}}, {"serve", &Serve{}},
		{"doctor", &Doctor{}}} {
		k, err := kong.New(p.cli, kong.Vars{"admin_listen": DefaultAdmin(p.name)}, kong.DefaultEnvars("HOTPARAM"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range k.Model.Flags {
			if f.Name == "help" || f.Name == "config" {
				continue
			}
			if rows[f.Name] == nil {
				rows[f.Name] = &row{flag: f}
			}
			rows[f.Name].programs = append(rows[f.Name].programs, p.name)
		}
	}
	comments := fieldComments(t)
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(`
A setting comes from its flag (''--redis.addr''), else its environment variable (''HOTPARAM_REDIS_ADDR''), else the
file, else its default. In the file it stands in the section before the dot:

''''''yaml
redis: {addr: ["127.0.0.1:6379"]}
tally: {flush: 100ms}
''''''

One file serves all programs. Unknown settings are errors even for programs that would not use them. Rules are read
again when the file changes and on SIGHUP; settings, but for the tokens of the admin listener, need a restart, and
[a file that changes one is refused](#reading-it-again) until then.
`, "''", "`"))
	for _, section := range sections() {
		fmt.Fprintf(&b, "\n### %s\n\n| setting | default | programs | meaning |\n|---|---|---|---|\n", section)
		for _, name := range slices.Sorted(maps.Keys(knownFlags())) {
			if !strings.HasPrefix(name, section+".") {
				continue
			}
			f := rows[name].flag
			def := f.Default
			if name == "admin.listen" {
				def = "by program: aggregator and serve " + DefaultAdmin("aggregator") + ", collector " +
					DefaultAdmin("collector") + ", limiter-sidecar " + DefaultAdmin("limiter-sidecar")
			} else if def != "" {
				def = "`" + def + "`"
			}
			help := cmp.Or(comments[f.Tag.Get("help")], f.Help)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, def, strings.Join(rows[name].programs, ", "),
				strings.ReplaceAll(help, "|", "\\|"))
		}
	}
	return b.String()
}

// The library leaves the same sections of a file alone as the programs do.
func TestProgramSectionsAreAll(t *testing.T) {
	t.Parallel()
	if got := sections(); !slices.Equal(got, rules.ProgramSections) {
		t.Errorf("rules.ProgramSections: %q, the programs have %q", rules.ProgramSections, got)
	}
}

// fieldComments are the doc comments of the fields of settings, by their help tag,
// which no two fields with different comments share.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	for _, name := range []string{"settings.go", "sections.go", "listeners.go", "notifications.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil || field.Doc == nil {
				return true
			}
			help := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("help")
			text := strings.Join(strings.Fields(field.Doc.Text()), " ")
			if before := comments[help]; before != "" && before != text {
				t.Errorf("%s: two fields have the help %q: %q and %q", name, help, before, text)
			}
			comments[help] = text
			return true
		})
	}
	return comments
}
