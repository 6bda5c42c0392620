package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goTest stands for go test: in the first run it fails the tests of FAIL with the text of SAYS, and in a run with -run
// it fails the tests of AGAIN.
const goTest = `
event() { printf '{"Action":"%s","Package":"%sp","Test":"%s","Output":"%s"}\n' "$1" "$MODULE" "$2" "${3-}"; }
event pass TestFine
run= failing=$FAIL
while [ $# -gt 0 ]; do [ "$1" = -run ] && run=$2 failing=$AGAIN; shift; done
echo "${run:-all}" >> "$RUNS"
for test in $failing; do event output "$test" "$SAYS"; event fail "$test"; done
[ -z "$run" ] && [ -n "$CRASH" ] && event output "" "$CRASH"
[ -n "$failing$CRASH" ] || exit 0
[ -n "$run" ] && [ -z "$failing" ] && exit 0
event fail ""
exit 1
`

func TestJudgeCommand_RepeatsAFewFailures(t *testing.T) {
	for _, c := range []struct {
		name, fail, again, says, crash string
		runs, unsteady, want           string
	}{
		{name: "all pass", runs: "all"},
		{name: "one that passes then", fail: "TestA", runs: "all ^(TestA)$", unsteady: "p TestA"},
		{name: "with its parts", fail: "TestA/b TestA", runs: "all ^(TestA)$", unsteady: "p TestA"},
		{name: "three", fail: "TestC TestA TestB", runs: "all ^(TestA|TestB|TestC)$",
			unsteady: "p TestA p TestB p TestC"},
		{name: "one that fails again", fail: "TestA TestB", again: "TestA", runs: "all ^(TestA|TestB)$",
			want: "2 tests and packages failed (it was repeated"},
		{name: "four", fail: "TestA TestB TestC TestD", runs: "all", want: "5 tests and packages failed"},
		{name: "a race", fail: "TestA", says: "race detected during execution of test", runs: "all", want: "2 tests"},
		{name: "a panic", fail: "TestA", says: "panic: nil map", runs: "all", want: "2 tests"},
		{name: "a package that crashed", crash: "leak", runs: "all", want: "1 tests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs := filepath.Join(t.TempDir(), "runs")
			for name, value := range map[string]string{"MODULE": module, "RUNS": runs, "FAIL": c.fail, "AGAIN": c.again,
				"SAYS": c.says, "CRASH": c.crash} {
				t.Setenv(name, value)
			}
			var out, unsteady strings.Builder
			err := exceptions{}.judgeCommand([]string{"sh", "-c", goTest, "go"}, strings.NewReader("./p\n./q\n"), &out,
				&unsteady)
			if c.want == "" && err != nil || c.want != "" && !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%v, want %q\n%s", err, c.want, &out)
			}
			text, err := os.ReadFile(runs)
			if got := strings.Join(strings.Fields(string(text)), " "); err != nil || got != c.runs {
				t.Errorf("%v, runs %q, want %q", err, got, c.runs)
			}
			if got := strings.Join(strings.Fields(unsteady.String()), " "); got != c.unsteady {
				t.Errorf("unsteady: %q, want %q", got, c.unsteady)
			}
		})
	}
}

func TestJudgeCommand_SaysThatItCannotRun(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"/nonexistent/go", "test"}, {"false"}} {
		err := (exceptions{}).judgeCommand(command, strings.NewReader(""), io.Discard, io.Discard)
		if err == nil {
			t.Errorf("%q is judged to have passed", command)
		}
	}
}
