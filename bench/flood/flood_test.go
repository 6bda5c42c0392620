package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// play simulates a cell, and returns the figures of its judged seconds.
func play(t *testing.T, c cell) result {
	t.Helper()
	w, err := simulate(&c, 2)
	if err != nil {
		t.Fatal(err)
	}
	return w.result(w.judged(), w.seconds)
}

// quietP99 returns the 0.99 quantile without a flood.
func quietP99(t *testing.T) float64 {
	t.Helper()
	return play(t, quiet()[0]).P99
}

// Each cell of the matrix with four capacities and 4,000 addresses reaches the goals.
func TestFlood_ReachesItsGoals(t *testing.T) {
	t.Parallel()
	p99 := quietP99(t)
	for _, c := range matrix() {
		if c.times != 4 || c.addresses != 4_000 {
			continue
		}
		t.Run(strings.Join([]string{c.variant.name, c.processes(), c.moment()}, ", "), func(t *testing.T) {
			t.Parallel()
			if r := play(t, c); len(r.misses(p99)) > 0 {
				t.Errorf("misses %v", r.misses(p99))
			}
		})
	}
}

// Without priority, members get no larger part than the crawler, so the goals are reached by priority alone.
func TestFlood_RefusesMembersWithoutPriority(t *testing.T) {
	t.Parallel()
	for _, v := range []variant{others[0], others[1], adaptOneKey} {
		if r := play(t, before(v, 1, 4, 4_000)); r.Members > 30 || r.Readers > 30 {
			t.Errorf("%s: %.1f %% of members and %.1f %% of readers are answered", v.name, r.Members, r.Readers)
		}
	}
}

// The file of docs/crawlers.md reaches the goals.
func TestFlood_ReachesItsGoalsWithTheDocumentedFile(t *testing.T) {
	t.Parallel()
	v := variant{name: adapt.name, text: documentedFile(t)}
	p99 := quietP99(t)
	for _, c := range []cell{before(v, 1, 4, 4_000), before(v, 2, 10, 40_000)} {
		if r := play(t, c); len(r.misses(p99)) > 0 {
			t.Errorf("%s, %s: misses %v", c.processes(), c.moment(), r.misses(p99))
		}
	}
}

// documentedFile returns the first file of rules in docs/crawlers.md.
func documentedFile(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "crawlers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("docs/crawlers.md has no file of rules")
	}
	return text
}

// RESULTS.md has the tables that the present program writes of results.json.
func TestTables_AreUpToDate(t *testing.T) {
	t.Parallel()
	r, err := readResults(".")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := measure.WithTables(string(page), program, r.tables()); err != nil || want != string(page) {
		t.Errorf("RESULTS.md does not fit results.json (%v): cd bench && go run ./flood", err)
	}
	if r.Matrix == nil || r.Cookies == nil || r.Programs == nil {
		t.Error("a study has no results")
	}
}
