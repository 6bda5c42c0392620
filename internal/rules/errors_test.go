package rules

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
)

// refusedFiles returns the files of testdata/refused.txt: the text of each file, and a part of its error.
func refusedFiles(t *testing.T) (files []struct{ text, want string }) {
	t.Helper()
	all, err := os.ReadFile("testdata/refused.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range strings.Split(strings.TrimSuffix(string(all), "\n"), "\n=== ")[1:] {
		want, text, _ := strings.Cut(file, "\n")
		files = append(files, struct{ text, want string }{text, want})
	}
	return files
}

// Each file has one mistake, and the error names its place and the mistake.
func TestParse_NamesThePlaceOfAMistake(t *testing.T) {
	t.Parallel()
	for _, c := range refusedFiles(t) {
		toRun := &Remedies{Rules: "start without --config", Secret: "set the secret"}
		set, err := ParseWith("f.yaml", []byte(c.text), Options{ToRun: toRun})
		if err == nil || set != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngives  %v\nwant … %s", c.text, err, c.want)
			continue
		}
		list := Errors{}
		if e := new(Error); !errors.As(err, &list) || !errors.As(err, &e) || e != list[0] {
			t.Errorf("%s\ngives no Errors: %v", c.text, err)
		}
		places := map[string]bool{} // "f.yaml:2: rules[0].limit": each has one error
		for _, e := range list {
			place := fmt.Sprint(e.Line, e.Field)
			if places[place] || e.File != "f.yaml" || e.Message == "" {
				t.Errorf("%s\ngives %+v, which is incomplete or the second there", c.text, *e)
			}
			places[place] = true
		}
	}
}

func TestNothingLikeItIsSuggested(t *testing.T) {
	t.Parallel()
	for _, got := range []string{"foo", "xy", ""} {
		if text := conf.Suggest(got, []string{"log", "ip", "query_bounds"}); text != "" {
			t.Errorf("%q: %s", got, text)
		}
	}
}

func TestErrors_ListsTenAndCountsOthers(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte("rules:\n"+strings.Repeat("  - {name: a, params: [], hot: {rate: x}}\n", 12)))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 10+1 || !strings.HasPrefix(lines[0], "f.yaml:2: rules[0].hot.rate: ") ||
		lines[10] != fmt.Sprintf("f.yaml: and %d more", len(err.(Errors))-10) {
		t.Errorf("%d lines: %v", len(lines), err)
	}
	if _, err := Parse("f.yaml", make([]byte, conf.MaxFile+1)); err == nil {
		t.Error("an oversized file passes")
	}
}

// Statuses of rules in Go are ranges, from 200 to 599.
func TestStatusRangesInGo(t *testing.T) {
	t.Parallel()
	for r, valid := range map[hottype.StatusRange]bool{
		{From: 200, To: 599}: true, {From: 304, To: 304}: true, {From: 199, To: 300}: false,
		{From: 500, To: 600}: false, {From: 305, To: 304}: false,
	} {
		l := rule.LimitOf(limit.PerSecond(1))
		l.RefundStatus = hottype.Statuses{r}
		set := &rule.Set{Rules: []rule.Rule{{Name: "topic", Params: []rule.Param{{Name: "id"}},
			Hot: rule.Hot{Rate: 1}, Limit: l}}}
		if _, err := FromGo("rules", set, Options{}); (err == nil) != valid {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
