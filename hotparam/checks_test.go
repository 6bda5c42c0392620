package hotparam_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/rule"
)

// Rules that are empty are an error wherever they come from, because a pipeline would limit nothing in silence.
func TestRules_NeedARule(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, inFile := hotparam.LoadRules(file)
	_, inText := hotparam.ParseRules("mine", []byte("namespace: shop\n"))
	_, inGo := hotparam.NewRules(rule.Set{Namespace: "shop"})
	for want, err := range map[string]error{
		"hotparam: rules: " + file + ": is empty: ": inFile, "hotparam: rules: mine: has no rules: ": inText,
		"hotparam: rules: Set: has no rules: ": inGo,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), ", or leave Config.Rules nil for the default rules") {
			t.Errorf("%v, want %s", err, want)
		}
		if e := new(rule.Error); !errors.As(err, &e) || "hotparam: rules: "+e.Error() != err.Error() {
			t.Errorf("%v is no *rule.Error", err)
		}
	}
}

// A program can show the errors of rules where they are: each has its file, line and field.
func TestRules_ErrorsHaveFileLineAndField(t *testing.T) {
	t.Parallel()
	_, err := hotparam.ParseRules("mine", []byte("rules:\n  - {name: a, params: [], hot: {rate: x}}\n"+
		strings.Repeat("  - {nam: b}\n", 20)))
	list := rule.Errors{}
	if !errors.As(err, &list) || len(list) <= 20 || strings.Count(err.Error(), "\n") != 10 {
		t.Fatalf("%d errors of %v", len(list), err)
	}
	first := *list[0]
	if first.File != "mine" || first.Line != 2 || first.Column == 0 || first.Field != "rules[0].hot.rate" ||
		!strings.HasPrefix(err.Error(), "hotparam: rules: "+first.Error()+"\n") {
		t.Errorf("%+v of %v", first, err)
	}
	_, err = hotparam.NewRules(rule.Set{Rules: []rule.Rule{{Name: "a", Params: rule.Params("id"), Hot: rule.Hot{Rate: -1}}}})
	if e := new(rule.Error); !errors.As(err, &e) || e.Line != 0 || e.Field != "Rules[0].Hot.Rate" {
		t.Errorf("%+v of %v", e, err)
	}
}
