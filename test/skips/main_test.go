package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	list, err := parse("# words\n\ninternal/a Test(One|Two) no disk\n")
	if err != nil {
		t.Fatal(err)
	}
	line := func(action, pkg, test, output string) string {
		return `{"Action":"` + action + `","Package":"` + module + pkg + `","Test":"` + test + `","Output":"` + output +
			`"}` + "\n"
	}
	pass := line("pass", "internal/a", "TestFive", "")
	for _, c := range []struct{ name, in, want, prints string }{
		{"passes", line("output", "internal/a", "TestFive", "quiet") + pass, "", ""},
		{"may skip", line("skip", "internal/a", "TestOne", "") + pass, "", ""},
		{"packages without tests", line("skip", "internal/b", "", "") + pass, "", ""},
		{"in another package", line("skip", "internal/b", "TestOne", "") + pass, "internal/b TestOne", ""},
		{"a longer name", line("skip", "internal/a", "TestOneMore", "") + pass, "internal/a TestOneMore", ""},
		{"why", line("output", "internal/b", "TestX", "no disk here") + line("skip", "internal/b", "TestX", "") + pass,
			"internal/b TestX", "no disk here"},
		{"fails", line("output", "internal/a", "TestX", "loud") + line("fail", "internal/a", "TestX", "") + pass,
			"1 tests", "loud"},
		{"crashes", line("output", "internal/a", "TestX", "loud") + line("fail", "internal/a", "", "") + pass,
			"1 tests", "loud"},
		{"does not compile", `{"ImportPath":"a","Action":"build-output","Output":"undefined: x"}` + "\n" +
			`{"ImportPath":"a","Action":"build-fail"}` + "\n" + pass, "1 tests", "undefined: x"},
		{"nothing", "no json\n", "no test has passed", "no json\n"},
	} {
		var out strings.Builder
		err := list.judge(strings.NewReader(c.in), &out)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if strings.TrimSpace(out.String()) != strings.TrimSpace(c.prints) {
			t.Errorf("%s: prints %q, want %q", c.name, out.String(), c.prints)
		}
	}
}

func TestParse_RejectsBadLines(t *testing.T) {
	t.Parallel()
	for _, list := range []string{allowed, nightly} {
		if _, err := parse(list); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"internal/a TestOne", "internal/a Test( why"} {
		if _, err := parse(bad); err == nil || !strings.Contains(err.Error(), "allowed.txt:1") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Every test that is left to the night exists, so that a new name does not bring it back, and no other test of that
// name is left out with it.
func TestNightly_NamesOneTestEach(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(nightly) {
		f := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(f) == 0 {
			continue
		}
		in := packagesWith(t, f[1])
		if len(in) != 1 || in[0] != f[0] {
			t.Errorf("nightly.txt: %s is a test of %q, want of %s only", f[1], in, f[0])
		}
		if re := regexp.MustCompile(namesOf(line)); !re.MatchString(f[1]) || re.MatchString(f[1]+"s") {
			t.Errorf("%s leaves out another test than %s", re, f[1])
		}
	}
}

// packagesWith returns the packages that have a test, from the root of the repository.
func packagesWith(t *testing.T, test string) (found []string) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), "\nfunc "+test+"(t *testing.T)") {
			dir, _ := filepath.Rel(root, filepath.Dir(path)) // root is a prefix
			found = append(found, filepath.ToSlash(dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
