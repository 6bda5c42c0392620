package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const root = "../.."

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#+ (.*)$")
	block   = regexp.MustCompile("(?ms)^```.*?^```")
	// what an anchor leaves out of its heading
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// anchors are the names of the headings of a document, as GitHub makes them.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllString(h[1], "")
		names[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
	}
	return names
}

// documents are the texts of all documents by their names.
func documents(t *testing.T) map[string]string {
	t.Helper()
	return listed(t, "*.md")
}

// listed are the texts of the files that git knows, by their names.
func listed(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	args := append([]string{"-C", root, "ls-files", "--"}, patterns...)
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if err != nil {
		t.Skipf("the files are listed by git: %v", err)
	}
	texts := map[string]string{}
	for name := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

// Every link from one document to another names a file that is there, and a
// heading that it has.
func TestLinksOfDocuments(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t) {
		for _, l := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			to, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			path := filepath.Join(root, name)
			if to != "" {
				path = filepath.Join(root, filepath.Dir(name), to)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which is not there", name, l[1])
				continue
			}
			if anchor == "" || !strings.HasSuffix(path, ".md") {
				continue
			}
			target, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(target))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, l[1])
			}
		}
	}
}

// Prose is at most 120 columns wide. Tables, code and lines that begin with a command
// cannot be broken.
func TestDocumentsAreNarrow(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t) {
		code := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			free := code || strings.HasPrefix(strings.TrimSpace(line), "|") || strings.HasPrefix(line, "`")
			if n := utf8.RuneCountInString(line); n > 120 && !free {
				t.Errorf("%s:%d has %d columns", name, i+1, n)
			}
		}
	}
}

// The dashboard and what is deployed are as narrow as the Go code; a tab counts four columns. HAProxy's format has no
// line that goes on in the next, and JSON no text that does.
func TestPageAndDeploymentAreNarrow(t *testing.T) {
	t.Parallel()
	files := listed(t, "internal/operator/admin/static", "deploy", ":!deploy/haproxy/*.cfg",
		":!*.json", ":!*.svg", ":!*.md")
	if len(files) < 40 {
		t.Fatalf("%d files", len(files))
	}
	for name, text := range files {
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); n > 120 {
				t.Errorf("%s:%d has %d columns", name, i+1, n)
			}
		}
	}
}
