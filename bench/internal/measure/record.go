package measure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Machine and Load describe the machine and its load, as far as Linux reports them.
func Machine() string {
	model := runtime.GOARCH
	info, _ := os.ReadFile("/proc/cpuinfo") // only for the record
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d x %s", runtime.NumCPU(), model)
}

func Load() string {
	text, _ := os.ReadFile("/proc/loadavg") // only for the record
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// Commit returns the commit of the working directory, with a mark if other files than results differ from it.
func Commit() string {
	out, err := exec.CommandContext(context.Background(), "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	commit := strings.TrimSpace(string(out))
	if exec.CommandContext(context.Background(), "git", "diff", "--quiet", "HEAD", "--", ":/",
		":(top,exclude)bench/**/*.json", ":(top,exclude)docs/performance", ":(top,exclude)*.md").Run() != nil {
		commit += "-dirty"
	}
	return commit
}

// WithComputed returns a document with the part that a program, such as bench/hot, computes for it.
func WithComputed(document, program, text string) (string, error) {
	begin, end := "<!-- computed: "+program+" -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(document, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("%s: the marks of its part are missing", program)
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}

// WithTables returns a page with the tables of a program, such as bench/flood, put between the two marks that the page
// has for them.
func WithTables(page, program, tables string) (string, error) {
	begin, end := "<!-- tables of "+program+": written by the program -->", "<!-- end of the tables -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("%s: the marks of the tables are missing", program)
	}
	return before + begin + "\n" + tables + end + after, nil
}
