package filestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func TestSummariesSurviveARestartAndGoAfterAMonth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := NewSummaries(dir)
	s.now = func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	for _, d := range []hottype.Summary{{Day: "2026-10-01"}, {Day: "2026-11-20", Requests: 1}, {Day: "2026-11-21", Requests: 2}, {Day: "2026-11-21", Requests: 3}} {
		if err := s.PutSummary(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	list, err := NewSummaries(dir).Summaries(t.Context())
	if err != nil || len(list) != 2 || list[0].Requests != 3 || list[1].Requests != 1 {
		t.Errorf("summaries %+v, %v", list, err)
	}
}

func TestDamagedSummariesAreLeftAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"{\n{": "line 2", `{"version": 2}`: "version 2"} {
		dir := t.TempDir()
		path := filepath.Join(dir, summariesFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := NewSummaries(dir).PutSummary(t.Context(), hottype.Summary{Day: "2026-11-21"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v; want one with %q and the path", err, want)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != text {
			t.Errorf("the file is %q, %v", left, err)
		}
	}
}
