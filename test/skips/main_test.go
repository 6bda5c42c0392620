package main

import (
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

func TestListOfSkips(t *testing.T) {
	t.Parallel()
	if _, err := parse(allowed); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"internal/a TestOne", "internal/a Test( why"} {
		if _, err := parse(bad); err == nil || !strings.Contains(err.Error(), "allowed.txt:1") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
