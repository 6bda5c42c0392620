package redistest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// CheckScriptsRan checks that a server has run scripts, by the names of their functions in package lua, and that there
// are no other scripts except others, which another package runs.
func CheckScriptsRan(t *testing.T, s *Server, scripts map[string]string, others ...string) {
	t.Helper()
	for _, name := range exportedScripts(t) {
		if text, known := scripts[name]; known {
			if ran := s.Client().ScriptExists(t.Context(), redis.NewScript(text).Hash()).Val(); len(ran) != 1 ||
				!ran[0] {
				t.Errorf("lua.%s was not run: ask for what it does", name)
			}
		} else if !slices.Contains(others, name) {
			t.Errorf("this test does not know the script lua.%s", name)
		}
	}
}

// exportedScripts returns the names of the functions of package lua.
func exportedScripts(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../../lua/embed*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^func ([A-Z]\w*)\(\) string`).
			FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	return names
}
