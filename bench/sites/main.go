// Command sites judges what learn says about generated sites of which the truth is known, and prints precision and
// recall of each statement for each class of sites as a table.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/testing/sites"
)

func main() {
	class := flag.String("class", "", "only this class")
	first := flag.Uint64("seed", 1, "the first seed; tuning uses seeds below 1000, and the others are held out")
	n := flag.Uint64("n", 200, "seeds of each class")
	verbose := flag.Bool("v", false, "also print each claim that is wrong or missing")
	least := flag.Float64("least", 0, "fail if a precision or recall is below this")
	show := flag.Bool("show", false, "also print what learn says of each site")
	write := flag.String("write", "", "only write the logs of the sites, into this directory")
	flag.Parse()
	if err := run(*class, *first, *n, *verbose, *show, *least, *write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(class string, first, n uint64, verbose, show bool, least float64, dir string) error {
	classes := sites.Classes()
	if class != "" {
		if !slices.Contains(classes, class) {
			return fmt.Errorf("sites: there is no class %q; classes are %s", class, strings.Join(classes, ", "))
		}
		classes = []string{class}
	}
	if dir != "" {
		return writeLogs(dir, classes, first, n)
	}
	report := func(s *sites.Site, score *sites.Score) {
		if show {
			fmt.Printf("%s %d\n%s\n", s.Class, s.Seed, score.Page)
		}
		for _, e := range score.Errors {
			if verbose {
				fmt.Printf("%s %d: %s\n", s.Class, s.Seed, e)
			}
		}
	}
	t, err := sites.Study(context.Background(), classes, first, n, report)
	if err != nil {
		return err
	}
	if err := t.Write(os.Stdout); err != nil {
		return err
	}
	if below := t.Below(least); len(below) > 0 {
		return fmt.Errorf("sites: below %g:\n%s", least, strings.Join(below, "\n"))
	}
	return nil
}

func writeLogs(dir string, classes []string, first, n uint64) error {
	for _, class := range classes {
		for seed := first; seed < first+n; seed++ {
			name := fmt.Sprintf("%s-%d.log", strings.Map(plain, class), seed)
			if err := os.WriteFile(filepath.Join(dir, name), sites.Generate(class, seed).Log, 0o600); err != nil {
				return fmt.Errorf("sites: %w", err)
			}
		}
	}
	return nil
}

func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '_'
}
