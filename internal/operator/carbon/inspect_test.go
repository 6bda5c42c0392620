package carbon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write makes a directory as Debian's graphite-carbon has it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInspect_ReadsADirectory(t *testing.T) {
	t.Parallel()
	in := Inspect(write(t, map[string]string{
		"carbon.conf": "# a comment\n[cache]\nMAX_CREATES_PER_MINUTE = 50\nMAX_UPDATES_PER_SECOND: 500\n[relay]\nMAX_CREATES_PER_MINUTE = 1\n",
		"storage-schemas.conf": "[carbon]\npattern = ^carbon\\.\nretentions = 60:90d\n\n[fine]\npattern = ^stats.*hot_param\nretentions = 1s:6h,10s:7d\n" +
			"[default]\npattern = .*\nretentions = 60s:1d\n",
		"storage-aggregation.conf": "[sum]\npattern = ^stats_counts\\.\nxFilesFactor = 0\naggregationMethod = sum\n[rest]\npattern = .*\n",
	}))
	if len(in.Problems) > 0 {
		t.Error(in.Problems)
	}
	if in.Settings["MAX_CREATES_PER_MINUTE"] != "50" || in.Settings["MAX_UPDATES_PER_SECOND"] != "500" {
		t.Errorf("settings %v", in.Settings)
	}
	if s := in.SchemaOf("stats.news.topic.hot_param.id=42"); s == nil || s.Name != "fine" || s.Step != time.Second ||
		s.Keep != 6*time.Hour || s.Line != 5 {
		t.Errorf("schema %+v", s)
	}
	if s := in.SchemaOf("servers.cpu"); s == nil || s.Name != "default" || s.Step != time.Minute {
		t.Errorf("schema %+v", s)
	}
	if s := in.SchemaOf("carbon.agents.a"); s == nil || s.Keep != 90*24*time.Hour {
		t.Errorf("schema %+v", s)
	}
	if a := in.AggregationOf("stats_counts.x"); a == nil || a.Method != "sum" || a.XFilesFactor != 0 {
		t.Errorf("aggregation %+v", a)
	}
	if a := in.AggregationOf("stats.x"); a == nil || a.Method != "average" || a.XFilesFactor != -1 {
		t.Errorf("aggregation %+v", a)
	}
}

func TestInspect_ReportsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	in := Inspect(write(t, map[string]string{
		"carbon.conf":          "MAX = 1\n[cache]\nnonsense\n",
		"storage-schemas.conf": "[python]\npattern = (?<!x)y\nretentions = 1s:1d\n[odd]\npattern = a\nretentions = often\n",
	}))
	for _, want := range []string{"carbon.conf:1: ", "carbon.conf:3: ", "storage-schemas.conf:1: section [python]",
		`retentions "often"`, "storage-aggregation.conf: there is no such file"} {
		if !slices.ContainsFunc(in.Problems, func(p string) bool { return strings.Contains(p, want) }) {
			t.Errorf("no problem says %q: %q", want, in.Problems)
		}
	}
	if s := in.SchemaOf("a"); s != nil {
		t.Errorf("schema %+v behind one that cannot be tried", s)
	}
}

func FuzzInspect(f *testing.F) {
	f.Add("[a]\npattern = .*\nretentions = 10s:1d, 1m:30d\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := Inspection{Settings: map[string]string{}}
		for _, s := range in.parse("f", text) {
			in.Schemas = append(in.Schemas, in.schemaOf(s))
			in.Aggregations = append(in.Aggregations, in.aggregationOf(s))
		}
		in.SchemaOf("a.b")
		in.AggregationOf("a.b")
	})
}
