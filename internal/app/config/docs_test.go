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

var update = flag.Bool("update", false, "write the settings into docs/settings.md")

const (
	docPath = "../../../docs/settings.md"
	marker  = "<!-- settings: go test ./internal/app/config -run Document -update writes the rest -->\n"
)

// The table of settings in the document is made from the flags themselves.
func TestDocumentListsEverySetting(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	before, have, ok := strings.Cut(string(body), marker)
	if !ok {
		t.Fatalf("%s has no %q", docPath, marker)
	}
	want := settingsText(t)
	if *update {
		if err := os.WriteFile(docPath, []byte(before+marker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf("%s is not up to date: go test ./internal/app/config -run Document -update", docPath)
	}
}

// setting is a row of a table: a flag, without its section, and the programs that have it.
type setting struct {
	section, name, value, text string
	programs                   []string
}

// settingsText returns the generated part of the document: one table of the settings that listeners share, and one
// table for each section of the file.
func settingsText(t *testing.T) string {
	t.Helper()
	all := settings(t)
	listeners := map[string]bool{}
	for _, s := range all {
		if s.name == "proxy_protocol" {
			listeners[s.section] = true
		}
	}
	// Settings that three listeners or more have, with the same default and meaning, are described once.
	type same struct{ name, value, text string }
	owners := map[same][]string{}
	for _, s := range all {
		if listeners[s.section] {
			k := same{s.name, s.value, s.text}
			owners[k] = append(owners[k], s.section)
		}
	}
	maps.DeleteFunc(owners, func(_ same, sections []string) bool { return len(sections) < 3 })
	columns := slices.Sorted(maps.Keys(listeners))
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Listeners\n\n| setting | default | %s | meaning |\n|---|---|%s---|\n",
		strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, k := range slices.SortedFunc(maps.Keys(owners), func(a, b same) int { return cmp.Compare(a.name, b.name) }) {
		fmt.Fprintf(&b, "| **`%s`** | %s |", k.name, k.value)
		for _, c := range columns {
			mark := ""
			if slices.Contains(owners[k], c) {
				mark = "x"
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		fmt.Fprintf(&b, " %s |\n", k.text)
	}
	section := ""
	for _, s := range all {
		if s.section != section {
			section = s.section
			fmt.Fprintf(&b, "\n## %s\n\n", section)
			if listeners[section] {
				b.WriteString("And the settings that [listeners](#listeners) share.\n\n")
			}
			b.WriteString("| setting | default | programs | meaning |\n|---|---|---|---|\n")
		}
		if listeners[section] && owners[same{s.name, s.value, s.text}] != nil {
			continue
		}
		fmt.Fprintf(&b, "| `%s.%s` | %s | %s | %s |\n", section, s.name, s.value, strings.Join(s.programs, ", "), s.text)
	}
	return b.String()
}

// settings returns all settings of all programs, ordered by section and name.
func settings(t *testing.T) []*setting {
	t.Helper()
	rows := map[string]*setting{}
	comments := fieldComments(t)
	for _, p := range []struct {
		name string
		cli  any
	}{{"collector", &Collector{}}, {"aggregator", &Aggregator{}}, {"limiter-sidecar", &Sidecar{}}, {"serve", &Serve{}},
		{"doctor", &Doctor{}}} {
		k, err := kong.New(p.cli, tagVariables(DefaultAdmin(p.name)), kong.DefaultEnvars("HOTPARAM"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range k.Model.Flags {
			section, name, inFile := strings.Cut(f.Name, ".")
			if !inFile || f.Name == "help" || f.Name == "config" {
				continue
			}
			if rows[f.Name] == nil {
				text := strings.ReplaceAll(cmp.Or(comments[f.Tag.Get("help")], f.Help), "|", "\\|")
				rows[f.Name] = &setting{section: section, name: name, value: defaultText(f), text: text}
			}
			rows[f.Name].programs = append(rows[f.Name].programs, p.name)
		}
	}
	known := knownFlags()
	maps.DeleteFunc(rows, func(name string, _ *setting) bool { _, ok := known[name]; return !ok })
	return slices.SortedFunc(maps.Values(rows), func(a, b *setting) int {
		return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.name, b.name))
	})
}

func defaultText(f *kong.Flag) string {
	switch {
	case f.Name == "admin.listen":
		return "by program: aggregator and serve " + DefaultAdmin("aggregator") + ", collector " +
			DefaultAdmin("collector") + ", limiter-sidecar " + DefaultAdmin("limiter-sidecar")
	case f.Default == "":
		return ""
	}
	return "`" + f.Default + "`"
}

// The library leaves the same sections of a file alone as the programs do.
func TestProgramSections_EqualThoseOfRules(t *testing.T) {
	t.Parallel()
	if got := programSections(); !slices.Equal(got, rules.ProgramSections) {
		t.Errorf("rules.ProgramSections: %q, the programs have %q", rules.ProgramSections, got)
	}
}

// fieldComments returns the doc comments of the fields of settings, by their help tag, which no two fields with
// different comments share.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	for _, name := range []string{"programs.go", "sections.go", "listeners.go", "denials.go"} {
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
