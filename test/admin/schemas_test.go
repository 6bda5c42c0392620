package admin_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	sources = "../../internal/operator/admin"
	schemas = "openapi.json#/components/schemas/"
)

// load returns a compiler of the schemas in openapi.json, and the document.
func load(t *testing.T) (*jsonschema.Compiler, map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sources, "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return c, doc.(map[string]any)
}

// TestAnswers_MatchTheirSchemas checks every answer against its schema. It runs the tests of package admin, which write
// each answer of the API to a file with the name of the schema that the document states for it.
func TestAnswers_MatchTheirSchemas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", ".")
	cmd.Dir, cmd.Env = sources, append(os.Environ(), "HOTPARAM_ADMIN_ANSWERS="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(answers) < 80 {
		t.Fatalf("%d answers were written, want 80 at least: %v", len(answers), err)
	}
	compiler, _ := load(t)
	for _, file := range answers {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Test, Schema string
			Body         json.RawMessage
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatal(err)
		}
		schema, err := compiler.Compile(schemas + answer.Schema)
		if err != nil {
			t.Fatal(err)
		}
		body, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer.Body))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(body); err != nil {
			t.Errorf("%s: %s is not a %s: %v", answer.Test, answer.Body, answer.Schema, err)
		}
	}
}

// TestSchemas_HaveValidReferences finds references to schemas that do not exist.
func TestSchemas_HaveValidReferences(t *testing.T) {
	t.Parallel()
	compiler, document := load(t)
	components := document["components"].(map[string]any)
	for name := range components["schemas"].(map[string]any) {
		if _, err := compiler.Compile(schemas + name); err != nil {
			t.Error(err)
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				at := strings.Split(strings.TrimPrefix(ref, "#/components/"), "/")
				if len(at) != 2 || components[at[0]].(map[string]any)[at[1]] == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, w := range v {
				walk(w)
			}
		case []any:
			for _, w := range v {
				walk(w)
			}
		}
	}
	walk(document)
}
