package main

import (
	"os"
	"strings"
	"testing"
)

// The documents have the figures that the results have: run "go run ./performance" in bench/ after a change of either.
func TestDocuments_FitResults(t *testing.T) {
	t.Parallel()
	files, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		has, wants := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range max(len(has), len(wants)) {
			if i >= len(has) || i >= len(wants) || has[i] != wants[i] {
				t.Errorf("%s:%d does not fit the results: run go run ./performance in bench/, which writes\n%s", name, i+1,
					strings.Join(wants[min(i, len(wants)):min(i+1, len(wants))], "\n"))
				break
			}
		}
	}
}

func TestExecute_NamesWhatThereIs(t *testing.T) {
	t.Parallel()
	f := &figures{bench: ".."}
	for expression, want := range map[string]string{
		`{{median "redus" "a" "b" "c"}}`:                         "redis.json",
		`{{median "proxy" "cold" "hotparam" "k requests/s"}}`:    `"cold keys" "hotparam"`,
		`{{median "proxy" "cold keys" "hotparam" "requests/s"}}`: `"k requests/s"`,
		`{{ratio "proxy" "cold keys" "nginx"}}`:                  `"nginx, limit_req"`,
		`{{recorded "nothing"}}`:                                 "idle",
	} {
		if _, err := f.execute("test", expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %s", expression, err, want)
		}
	}
}

func TestCorrectFigures_KeepsTheWords(t *testing.T) {
	t.Parallel()
	f := &figures{}
	got, err := f.correctFigures("It took 9 ms\nof 1,201. Then", "took {{round 1 2.5}} ms of {{add 1 2}}. Then")
	if want := "It took 2.5 ms\nof 3. Then"; err != nil || got != want {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
	if _, err := f.correctFigures("It took 9 ms", "takes {{add 1 2}} ms"); err == nil {
		t.Error("other words: got no error")
	}
}

func TestKeepComputed_KeepsPartsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const empty = "<!-- computed: bench/a -->\n<!-- end -->"
	const written = "<!-- computed: bench/a -->\n\n| 1 |\n\n<!-- end -->"
	if got, want := keepComputed("new\n"+empty+"\nend", "old\n"+written), "new\n"+written+"\nend"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := keepComputed(empty, "old"); got != empty {
		t.Errorf("without the part before: got %q, want %q", got, empty)
	}
}
