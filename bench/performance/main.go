// Command performance makes docs/performance.md and bench/RESULTS.md from what the programs of this module saved
// (results/*.json, and results.json in some folders), and corrects the figures in other documents.
//
//	go run ./performance
//
// performance.md.tmpl and RESULTS.md.tmpl are the two pages as templates (text/template), in which each figure is an
// expression; the functions are in figures.go. A part between "<!-- computed: bench/NAME -->" and "<!-- end -->" is
// left as it is: the program bench/NAME writes it, by measure.WithComputed. figures.txt names the figures of all other
// documents. Without changes to write, the test of this package passes.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// pages are the templates of this folder, and the pages that are made from them.
var pages = map[string]string{
	"performance.md.tmpl": "docs/performance.md",
	"RESULTS.md.tmpl":     "bench/RESULTS.md",
}

func main() {
	files, err := render("..")
	if err == nil {
		err = measure.WriteFiles(files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "performance:", err)
		os.Exit(1)
	}
}

// render returns the texts of all documents with figures, by their names. root is the folder of the repository.
func render(root string) (map[string][]byte, error) {
	f := &figures{bench: filepath.Join(root, "bench")}
	here := filepath.Join(f.bench, "performance")
	files := map[string][]byte{}
	for from, to := range pages {
		text, err := os.ReadFile(filepath.Join(here, from))
		if err != nil {
			return nil, err
		}
		page, err := f.execute(from, string(text))
		if err != nil {
			return nil, err
		}
		name := filepath.Join(root, to)
		before, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[name] = []byte(keepComputed(page, string(before)))
	}
	list, err := os.ReadFile(filepath.Join(here, "figures.txt"))
	if err != nil {
		return nil, err
	}
	return files, f.correct(root, string(list), files)
}

// execute returns a template's text with its figures.
func (f *figures) execute(name, text string) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(f.functions()).Parse(text)
	if err != nil {
		return "", err
	}
	var page bytes.Buffer
	if err := t.Execute(&page, nil); err != nil {
		return "", err
	}
	return page.String(), nil
}

var computed = regexp.MustCompile(`(?s)<!-- computed: bench/\w+ -->\n.*?<!-- end -->`)

// keepComputed returns the page with the parts that other programs have written into the former page.
func keepComputed(page, before string) string {
	parts := map[string]string{}
	for _, part := range computed.FindAllString(before, -1) {
		name, _, _ := strings.Cut(part, "\n")
		parts[name] = part
	}
	return computed.ReplaceAllStringFunc(page, func(part string) string {
		name, _, _ := strings.Cut(part, "\n")
		if written, ok := parts[name]; ok {
			return written
		}
		return part
	})
}
