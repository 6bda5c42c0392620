package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const root = "../.."

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#+ (.*)$")
	block   = regexp.MustCompile("(?ms)^```.*?^```")
	// the characters that GitHub drops from a heading in its anchor
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// anchors returns the anchors that GitHub makes of the headings of a document.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllString(h[1], "")
		names[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
	}
	return names
}

// documents returns the texts of all documents by their names.
func documents(t *testing.T) map[string]string {
	t.Helper()
	return listed(t, "*.md")
}

// listed returns the texts of the files that git knows, by their names.
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

// Every link from one document to another names a file that exists, and a heading of it.
func TestDocuments_LinkToExistingHeadings(t *testing.T) {
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

// pages holds the maximum number of words of each page of docs/. A page that needs more repeats another page, or
// contains a reason that belongs into an ADR.
var pages = map[string]int{
	"getting-started": 1000, "concepts": 1900, "rules": 4600, "settings": 300, "detection": 2850, "limits": 4540,
	"adaptive": 1200, "cache": 1250, "evasion": 1675, "security": 3000, "gateways": 3690, "go": 2235, "deploy": 2725,
	"runbook": 3560, "admin": 3600, "metrics": 250, "protocol": 4000, "redis": 3345, "performance": 1400,
	"architecture": 1000, "scale": 900, "logs": 575, "crawlers": 1500, "denials": 1000,
}

// madeParts are the parts of a page that a program writes: between marks, or from a mark that names the program to the
// end of the page.
var madeParts = regexp.MustCompile(`(?ms)^<!-- ((?:fields|computed): .*?^<!-- end -->|api -->.*?^<!-- /api -->|` +
	`layers -->.*?^<!-- /layers -->|(?:\w+: )?go test .*)`)

// words returns the number of words that a reader reads, without the marks of tables and lists.
func words(text string) int {
	n := 0
	for w := range strings.FieldsSeq(madeParts.ReplaceAllString(text, "")) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// docs/ has 24 pages within their bounds, and each begins with one short paragraph about its use.
func TestPagesOfDocumentsAreShort(t *testing.T) {
	t.Parallel()
	texts, total := listed(t, "docs/*.md", ":!docs/*/*"), 0
	for name, text := range texts {
		page := strings.TrimSuffix(filepath.Base(name), ".md")
		n := words(text)
		total += n
		if most := pages[page]; n > most {
			t.Errorf("%s has %d words, of %d (pages of docs/ are listed in this test)", name, n, most)
		}
		_, after, _ := strings.Cut(text, "\n\n")
		first, _, _ := strings.Cut(after, "\n\n")
		if n := len(strings.Fields(first)); n > 40 {
			t.Errorf("%s begins with %d words, of 40", name, n)
		}
	}
	if len(texts) > len(pages) || total > 50_000 {
		t.Errorf("%d pages of %d, %d words of 50,000", len(texts), len(pages), total)
	}
}

// blank keeps the number of lines of a text, so that those after it keep theirs.
func blank(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }

// The dashboard and the deployed files are as narrow as the Go code; a tab counts four columns. HAProxy's format cannot
// continue a line, and JSON cannot continue a text.
func TestPageAndDeploymentAreNarrow(t *testing.T) {
	t.Parallel()
	files := listed(t, "internal/operator/admin/static", "deploy", ":!deploy/haproxy/*.cfg", ":!deploy/haproxy/*.spoe",
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
