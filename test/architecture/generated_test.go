package architecture

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

var update = flag.Bool("update", false, "write the generated parts of documents")

// generated compares the part of a document between <!-- name --> and <!-- /name --> with text, and writes it
// with -update.
func generated(t *testing.T, file, name, text string) {
	t.Helper()
	file = filepath.Join(root, file)
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(body), "<!-- "+name+" -->\n")
	now, after, ok2 := strings.Cut(rest, "<!-- /"+name+" -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no part %s", file, name)
	}
	if now == text {
		return
	}
	if !*update {
		t.Errorf("%s: the part %s is out of date: cd test && go test ./architecture -update", file, name)
		return
	}
	body = []byte(before + "<!-- " + name + " -->\n" + text + "<!-- /" + name + " -->" + after)
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
}

// parameter is a query parameter or header of an operation in openapi.json.
type parameter struct {
	Ref    string `json:"$ref"`
	Name   string
	In     string
	Schema struct {
		Minimum, Maximum, Default any
		Enum                      []any
	}
}

// String names the parameter with its bounds and default.
func (p parameter) String() string {
	var notes []string
	// A greater maximum is the range of a type.
	if most, ok := p.Schema.Maximum.(float64); ok && most < math.MaxInt32 {
		notes = append(notes, fmt.Sprintf("%v to %v", cmp.Or(p.Schema.Minimum, any(0)), p.Schema.Maximum))
	}
	for _, e := range p.Schema.Enum {
		notes = append(notes, fmt.Sprint(e))
	}
	if p.Schema.Default != nil {
		notes = append(notes, fmt.Sprintf("default %v", p.Schema.Default))
	}
	if len(notes) == 0 {
		return "`" + p.Name + "`"
	}
	return "`" + p.Name + "` (" + strings.Join(notes, ", ") + ")"
}

// The table of the API in docs/admin.md is openapi.json's.
func TestAPITable_IsThatOfOpenAPI(t *testing.T) {
	t.Parallel()
	var text string
	for name, body := range listed(t, "*/openapi.json") {
		if text != "" {
			t.Fatalf("%s is a second openapi.json", name)
		}
		text = body
	}
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Parameters map[string]parameter }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	table := "| route | what | parameters |\n|---|---|---|\n"
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range []string{"get", "put", "post", "delete"} {
			raw, ok := doc.Paths[path][method]
			if !ok || strings.HasPrefix(path, "/assets/") {
				continue
			}
			var op struct {
				Summary    string
				Parameters []parameter
			}
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			var params []string
			for _, p := range op.Parameters {
				if _, name, ok := strings.Cut(p.Ref, "#/components/parameters/"); ok {
					p = doc.Components.Parameters[name]
				}
				if p.In != "path" {
					params = append(params, p.String())
				}
			}
			table += fmt.Sprintf("| `%s %s` | %s | %s |\n", strings.ToUpper(method), path, op.Summary,
				strings.Join(params, ", "))
		}
	}
	generated(t, "docs/admin.md", "api", table)
}

// An alert wakes a person: its heading in the runbook describes the effects on users, where to look and the remedy, and
// the alert carries the heading's address.
func TestRunbookHasEveryAlert(t *testing.T) {
	t.Parallel()
	const address = "https://github.com/hotparam/pipeline/blob/main/docs/runbook.md#"
	texts := listed(t, "deploy/prometheus/alerts.yml", "docs/runbook.md")
	_, section, _ := strings.Cut(texts["docs/runbook.md"], "\n## Alerts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	entries := map[string]string{}
	for entry := range strings.SplitSeq(section, "\n### ") {
		name, text, _ := strings.Cut(entry, "\n")
		entries[name] = text
	}
	alerts := regexp.MustCompile(`(?m)^      - alert: (\w+)$`).FindAllStringSubmatch(texts["deploy/prometheus/alerts.yml"], -1)
	if len(alerts) < 20 || len(entries) != len(alerts)+1 { // the first part is the introduction
		t.Errorf("%d alerts, %d headings", len(alerts), len(entries)-1)
	}
	for _, a := range alerts {
		text, ok := entries[a[1]]
		if !ok {
			t.Errorf("docs/runbook.md has no heading %s", a[1])
		}
		for _, part := range []string{"**Users:**", "**Look:**", "**Do:**"} {
			if !strings.Contains(text, part) && !strings.Contains(text, "](#hotparam") {
				t.Errorf("%s in docs/runbook.md has no %s and no link to an alert that has it", a[1], part)
			}
		}
		if !strings.Contains(texts["deploy/prometheus/alerts.yml"], address+strings.ToLower(a[1])+"\n") {
			t.Errorf("%s has no runbook_url of its heading", a[1])
		}
	}
}

// The table of layers in docs/architecture.md is made of the layers that TestImportsOfPackages_PointDown holds.
func TestLayerTable_IsThatOfLayers(t *testing.T) {
	t.Parallel()
	table := "| layer | packages | why |\n|---|---|---|\n"
	for _, l := range layers {
		var names []string
		for _, p := range l.packages {
			names = append(names, "`"+strings.TrimPrefix(p, "internal/")+"`")
		}
		why := l.why
		if l.peers {
			why += "; they may import each other"
		}
		table += fmt.Sprintf("| %s | %s | %s |\n", l.name, strings.Join(names, " "), why)
	}
	generated(t, "docs/architecture.md", "layers", table)
}

// The reasons of verdicts in docs/gateways.md are the reasons of the code.
func TestReasonTable_IsThatOfTheCode(t *testing.T) {
	t.Parallel()
	table := "| reason | verdict | meaning |\n|---|---|---|\n"
	for r := range hottype.Reasons() {
		info, verdict := r.Info(), "allowed"
		switch {
		case info.Allows && info.Denies:
			verdict = "either"
		case info.Denies:
			verdict = "denied"
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", info.Name, verdict, info.Meaning)
	}
	generated(t, "docs/gateways.md", "reasons", table)
}
