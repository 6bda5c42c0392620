package main

import (
	"strings"
	"testing"
)

func TestRowsOfTwoBuildsAreCompared(t *testing.T) {
	t.Parallel()
	const head = "| what | who | k decisions/s | CPU, us | ours is better |\n|---|---|---|---|---|\n"
	var all tables
	for _, out := range []struct{ build, text string }{
		{"hotparam", head + "| a | hotparam | 30 | 1 | |\n| a | hotparam, through a gate | 9 | 2 | |\n| a | peer | 5 | 1 | 6 x |\n"},
		{"c59901f", head + "| a | hotparam | 20 | 2 | |\n| a | hotparam, leases | 9 | 2 | |\n"},
		{"c59901f", head + "| a | hotparam | 10 | 2 | |\n"},
		{"hotparam", head + "| a | hotparam | 30 | 3 | |\n"},
	} {
		if err := all.read(out.build, out.text); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if err := all.write(&b); err != nil {
		t.Fatal(err)
	}
	want := head + "| a | hotparam | 30 | 2 (1-3) |  |\n| a | c59901f | 15 (10-20) | 2 | 2.25 x |\n\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
