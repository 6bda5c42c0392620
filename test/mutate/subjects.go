package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// subject is code that is changed by rule, and the tests that should notice, in the
// order in which they are tried.
type subject struct {
	files string // a pattern, from the root of the repository
	tests []tests
}

// subjects are the core: the code that detects, decides and counts.
var subjects = []subject{
	own("internal/limitcore", tests{pkg: "./hotparam/limit", pattern: "."}),
	own("hotparam/limit"),
	own("internal/storage/redislimits"),
	own("internal/deciding/gate"),
	own("internal/deciding/guarded", tests{pkg: "./internal/deciding/gate", pattern: "."}),
	own("internal/deciding/fairness"),
	own("internal/deciding/adaptive"),
	own("internal/deciding/visitorpass"),
	own("internal/serving/respcache"),
	own("internal/hotset"),
	own("internal/detection/detect"),
	own("internal/detection/window"),
	own("internal/detection/aggregate"),
	own("internal/detection/heavyhitters"),
	own("internal/rules"),
	own("internal/canon"),
	{"lua/limit_*.lua", []tests{{"./internal/storage/redislimits", "StateInRedis", true}, // the quickest first
		{"./internal/storage/redislimits", "Match|Laws|Refund", true},
		{"./internal/storage/redislimits", ".", true}}},
	{"lua/in_flight.lua", []tests{{"./internal/storage/redislimits", "InFlight", true}}},
	{"lua/cl_throttle.lua", []tests{{"./internal/storage/redislimits", "Throttle", true}}},
	{"lua/[cpr]*_[hbo]*.lua", control},
	{"lua/write_*.lua", control},
}

// control are the tests of the scripts of the control plane.
var control = []tests{{"./internal/storage/rediscontrol", "ScriptsMatch", true},
	{"./internal/storage/rediscontrol", ".", true}}

// own is a package with its own tests, and maybe others.
func own(dir string, more ...tests) subject {
	return subject{dir + "/*.go", append([]tests{{pkg: "./" + dir, pattern: "."}}, more...)}
}

// mutants makes every change of the subject's files that the rules know.
func (s subject) mutants(root string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(root, s.files))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		if filepath.Ext(path) == ".lua" {
			all = append(all, luaMutants(name, string(text))...)
			continue
		}
		some, err := goMutants(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// equivalents are changes that no test can notice. A line that begins with # is a
// comment, and an empty line ends an entry:
//
//	internal/canon/escape.go         file
//	< to <=                          change, as it is printed, or "deleted"
//	if a < b {                       the line
//	when they are equal both are ... why
//
//go:embed equivalent.txt
var equivalents string

type equivalent struct{ file, change, text string }

// loadEquivalents reads equivalent.txt; root is where the lines have to be.
func loadEquivalents(root string) (map[equivalent]bool, error) {
	known := map[equivalent]bool{}
	for entry := range strings.SplitSeq(equivalents, "\n\n") {
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(entry), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "#") || line == ""
		})
		if len(lines) == 0 {
			continue
		}
		if len(lines) < 4 {
			return nil, fmt.Errorf("equivalent.txt: %q is no file, change, line and reason", lines)
		}
		e := equivalent{lines[0], lines[1], lines[2]}
		text, err := os.ReadFile(filepath.Join(root, e.file))
		if err != nil {
			return nil, fmt.Errorf("equivalent.txt: %w", err)
		}
		if !strings.Contains(string(text), e.text) {
			return nil, fmt.Errorf("equivalent.txt: %s has no line %q any more: delete or change the entry", e.file,
				e.text)
		}
		known[e] = true
	}
	return known, nil
}
