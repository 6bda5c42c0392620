package sites_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/testing/sites"
)

// The log of a class and a seed is the same each time, all its lines are requests, and the clients of its truth and the
// values that are viral occur in it.
func TestGenerate_WritesLogsOfItsTruth(t *testing.T) {
	t.Parallel()
	for _, class := range sites.Classes() {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			s := sites.Generate(class, 1)
			if again := sites.Generate(class, 1); !bytes.Equal(again.Log, s.Log) {
				t.Error("two logs of one seed")
			}
			clients, targets := map[string]bool{}, map[string]bool{}
			rep, err := replay.Read(t.Context(), replay.Config{}, func(s *replay.Seen) {
				clients[strings.Clone(s.Request.Client.String())] = true
				targets[strings.Clone(s.Request.Target)] = true
			}, replay.Source{Reader: bytes.NewReader(s.Log)})
			if err != nil || rep.Malformed > 0 || rep.Requests < 1000 {
				t.Fatalf("%v: %d of %d lines are malformed", err, rep.Malformed, rep.Lines)
			}
			for _, c := range slices.Concat(s.Truth.Loops, s.Truth.Scanners, s.Truth.Probes, s.Truth.Steady) {
				if !clients[c] {
					t.Errorf("no request of %s", c)
				}
			}
			for _, v := range append(s.Truth.Viral, s.Truth.Wanted...) {
				found := false
				for target := range targets {
					found = found || strings.HasPrefix(target, v)
				}
				if !found {
					t.Errorf("no request for %s", v)
				}
			}
		})
	}
}

func TestTable_WritesPrecisionAndRecall(t *testing.T) {
	t.Parallel()
	table := sites.Table{}
	table.Add("forum", &sites.Score{Counts: map[sites.Statement]sites.Count{sites.Viral: {Right: 3, Wrong: 1}}})
	table.Add("forum", &sites.Score{Counts: map[sites.Statement]sites.Count{sites.Viral: {Missed: 3}}})
	var text bytes.Buffer
	err := table.Write(&text)
	if err != nil || !strings.Contains(text.String(), "| forum | – | – | 0.75 / 0.50 | – |") {
		t.Errorf("%v\n%s", err, &text)
	}
	if below := table.Below(0.5); len(below) != 0 {
		t.Error(below)
	}
	if below := table.Below(0.6); len(below) != 1 {
		t.Error(below)
	}
}
