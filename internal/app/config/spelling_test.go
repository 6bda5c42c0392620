package config

import (
	"strings"
	"testing"
)

// A setting has one spelling, with underscores; another one is an unknown setting, and the error suggests the right
// one.
func TestParse_AcceptsOneSpelling(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		args []string
		want string
	}{
		"file": {text: "detect:\n  hot-ttl: 7s\n", want: `hotparam.yaml:2: detect.hot-ttl: unknown setting; did you mean "detect.hot_ttl"?`},
		"flag": {args: []string{"--detect.hot-ttl=7s"}, want: "unknown flag --detect.hot-ttl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cfg Aggregator
			p, err := Build(&cfg, "aggregator", "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err = p.Parse(append([]string{"--config", write(t, tt.text)}, tt.args...)); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
