package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestEquivalentsFitTheCode(t *testing.T) {
	t.Parallel()
	if _, err := loadEquivalents(root); err != nil {
		t.Error(err)
	}
}

// Every subject has files with changes, and packages with tests.
func TestSubjectsFitTheCode(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		if all, err := s.mutants(root); err != nil || len(all) < 10 {
			t.Errorf("%s: %d changes, %v", s.files, len(all), err)
		}
		for _, what := range s.tests {
			for _, name := range unknownTests(t, fault{pkg: what.pkg, tests: what.pattern}) {
				t.Errorf("%s: no test of %s is called %s", s.files, what.pkg, name)
			}
		}
	}
}

func TestGoMutants_ChangeOperatorsAndNumbers(t *testing.T) {
	t.Parallel()
	const text = `package a

const most = 0x10

func f(a []int, m map[string]int) bool {
	for i := 0; i < len(a); i++ {
		m["a+b"] -= min(a[i], 7)
	}
	if len(a) == 0 && !g() {
		return false
	}
	buffer := make([]byte, 0, 64)
	defer h(buffer)
	return -a[1] >= most
}
`
	want := []string{
		"3 0x10 to 17", "3 0x10 to 15",
		"6 0 to 1", "6 < to >=", "6 < to <=",
		"7 -= to +=", "7 deleted", "7 min to max", "7 7 to 8", "7 7 to 6",
		"9 == to !=", "9 0 to 1", "9 && to ||", "9 ! to  ", "10 false to true",
		"13 deleted", "14 - to  ", "14 1 to 2", "14 1 to 0", "14 >= to <", "14 >= to >",
	}
	all, err := goMutants("a.go", text)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, text, all, want)
}

func TestLuaMutants_ChangeOperatorsAndNumbers(t *testing.T) {
	t.Parallel()
	const text = `-- a comment: 1 < 2
local least = floor(a / 2) -- not 3
if not a and b ~= 10 or c == 'x > 1' then
  redis.call('SET', key, text, 'PX', 1)
  used, at = used - 1,
    now
  state = 0
end
--
`
	want := []string{
		"2 floor to ceil", "2 / to *", "2 2 to 3", "2 2 to 1",
		"3 not to  ", "3 and to or", "3 ~= to ==", "3 10 to 11", "3 10 to 9", "3 or to and", "3 == to ~=",
		"4 deleted", "4 1 to 2", "4 1 to 0", "5 - to +", "5 1 to 2", "5 1 to 0", "7 deleted", "7 0 to 1",
	}
	compare(t, text, luaMutants("a.lua", text), want)
}

func compare(t *testing.T, text string, all []mutant, want []string) {
	t.Helper()
	var got []string
	for _, m := range all {
		if text[m.begin:m.end] != m.old || !strings.Contains(m.text, strings.TrimSpace(m.old)) {
			t.Errorf("line %d, %s: in the text is %q", m.line, m.change(), text[m.begin:m.end])
		}
		got = append(got, fmt.Sprint(m.line, " ", m.change()))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
