package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// The table cannot rot: every fault fits the code, and there are tests by the
// names that should notice it.
func TestFaultsFitTheCode(t *testing.T) {
	t.Parallel()
	faults, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) < 60 {
		t.Errorf("%d faults, want 60 at least", len(faults))
	}
	if _, err := readsScripts(root); err != nil {
		t.Error(err)
	}
	for _, f := range faults {
		if _, err := f.plant(root); err != nil {
			t.Error(err)
		}
		for _, name := range unknownTests(t, f) {
			t.Errorf("fault %s: no test of %s is called %s", f.name, f.pkg, name)
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// unknownTests are those alternatives of a fault's pattern that match no test.
func unknownTests(t *testing.T, f fault) (unknown []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, f.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	top, _, _ := strings.Cut(f.tests, "/")
	for _, pattern := range strings.Split(top, "|") {
		re, err := regexp.Compile(pattern)
		if err != nil {
			t.Fatalf("fault %s: %v", f.name, err)
		}
		found := false
		for _, name := range names {
			found = found || re.MatchString(name)
		}
		if !found {
			unknown = append(unknown, pattern)
		}
	}
	return unknown
}

func TestBadTablesAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct{ text, want string }{
		{"one\nfile a.go\ntest ./a A\n- x\n+ x\n", "changes nothing"},
		{"one\nfile a.go\ntest ./a\n- x\n+ y\n", "needs a file, a test"},
		{"one\nfile a.go\n- x\n+ y\n", "needs a file, a test"},
		{"one two\nfile a.go\ntest ./a A\n- x\n+ y\n", "no spaces"},
		{"one\nseeds none\n", `t.txt:1: fault one: seeds "none": want a number`},
		{"\n# words\none\nflie a.go\n", `t.txt:3: fault one: a line begins with "flie"`},
	} {
		if _, err := parse("t.txt", bad.text); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q: %v, want %q", bad.text, err, bad.want)
		}
	}
	got, err := parse("t.txt",
		"one\nfile a.go\ntest ./a A|B\n-   x {\n- \n+   y\n\n# two\ntwo\nfile b.go\ntest ./b C\nseeds 9\n- z\n")
	if err != nil || len(got) != 2 || got[0] != (fault{name: "one", file: "a.go", pkg: "./a", tests: "A|B", old: "  x {\n",
		new: "  y"}) || got[1].new != "" || got[1].seeds != 9 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFaultOutsideTheCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("x y x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, fits := range map[string]bool{"y": true, "x": false, "z": false} {
		if _, err := (fault{name: "one", file: "a.go", old: old, new: "-"}).plant(dir); (err == nil) != fits {
			t.Errorf("%q: %v", old, err)
		}
	}
}

func TestFaultsOfAChange(t *testing.T) {
	t.Parallel()
	all := []fault{{name: "one", file: "a/a.go", pkg: "./a"}, {name: "two", file: "b/b.go", pkg: "./b"},
		{name: "three", file: "a/other.go", pkg: "./a"}, {name: "four", file: "lua/x.lua", pkg: "./b"}}
	for _, c := range []struct{ changed, want string }{
		{"", ""}, {"README.md b/c.go", ""}, {"b/b.go", "two"}, {"a/a_test.go", "one three"}, {"lua/x.lua", "four"},
		{"a/a_test.go b/b.go", "two one three"}, {"a/x/a_test.go", ""},
	} {
		var got []string
		for _, f := range touched(all, strings.Fields(c.changed)) {
			got = append(got, f.name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.changed, got, c.want)
		}
	}
}
