package learn_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/sites"
)

// Of generated sites of each class, at least nine of ten statements of a proposal are right, and nine of ten facts are
// stated.
func TestLearn_IsRightAboutSitesOfEachClass(t *testing.T) {
	t.Parallel()
	first, n := uint64(52), uint64(3)
	if os.Getenv("HOTPARAM_NIGHTLY") != "" {
		first, n = 1, 50
	}
	var wrong []string
	table, err := sites.Study(context.Background(), sites.Classes(), first, n, func(s *sites.Site, score *sites.Score) {
		for _, e := range score.Errors {
			wrong = append(wrong, s.Class+": "+e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if below := table.Below(0.9); len(below) > 0 {
		t.Errorf("%s\n\n%s", strings.Join(below, "\n"), strings.Join(wrong, "\n"))
	}
}
