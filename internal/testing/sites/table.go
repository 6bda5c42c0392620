package sites

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Table holds the counts of all statements by class.
type Table map[string]map[Statement]Count

// Add adds the counts of a site.
func (t Table) Add(class string, s *Score) {
	if t[class] == nil {
		t[class] = map[Statement]Count{}
	}
	for of, n := range s.Counts {
		c := t[class][of]
		t[class][of] = Count{c.Right + n.Right, c.Wrong + n.Wrong, c.Missed + n.Missed}
	}
}

// Precision returns the share of the claims that are right, or 1 if there are none.
func (c Count) Precision() float64 { return share(c.Right, c.Wrong) }

// Recall returns the share of the facts that are claimed, or 1 if there are none.
func (c Count) Recall() float64 { return share(c.Right, c.Missed) }

func share(right, others int) float64 {
	if right+others == 0 {
		return 1
	}
	return float64(right) / float64(right+others)
}

func (c Count) String() string {
	if c == (Count{}) {
		return "–"
	}
	return fmt.Sprintf("%.2f / %.2f", c.Precision(), c.Recall())
}

// Study judges the sites of the classes and of n seeds from the first one on. report, unless nil, is called with each
// score, in the order of classes and seeds.
func Study(ctx context.Context, classes []string, first, n uint64, report func(*Site, *Score)) (Table, error) {
	type result struct {
		site  *Site
		score *Score
	}
	results := make([][]result, len(classes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, class := range classes {
		results[i] = make([]result, n)
		for k := range n {
			group.Go(func() error {
				s := Generate(class, first+k)
				score, err := Judge(ctx, s)
				s.Log = nil
				results[i][k] = result{s, score}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	t := Table{}
	for i, class := range classes {
		for _, r := range results[i] {
			t.Add(class, r.score)
			if report != nil {
				report(r.site, r.score)
			}
		}
	}
	return t, nil
}

// Write writes the table in Markdown: precision and recall of each statement and class.
func (t Table) Write(w io.Writer) error {
	var text strings.Builder
	text.WriteString("| class |")
	for _, s := range Statements() {
		fmt.Fprintf(&text, " %s |", s)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(Statements())) + "\n")
	for _, class := range Classes() {
		if t[class] == nil {
			continue
		}
		fmt.Fprintf(&text, "| %s |", class)
		for _, s := range Statements() {
			fmt.Fprintf(&text, " %s |", t[class][s])
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Below returns the classes and statements of which precision or recall is below least.
func (t Table) Below(least float64) (all []string) {
	for class, counts := range t {
		for of, c := range counts {
			if min(c.Precision(), c.Recall()) < least {
				all = append(all, fmt.Sprintf("%s, %s: %s of %+v", class, of, c, c))
			}
		}
	}
	slices.Sort(all)
	return all
}
