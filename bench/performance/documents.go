package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var expression = regexp.MustCompile(`\{\{.*?\}\}`)

// correct adds the documents of a list to the files, with their figures. A line of the list is the name of a document,
// ": ", and words of the document with an expression in place of each figure.
func (f *figures) correct(root, list string, files map[string][]byte) error {
	for i, line := range strings.Split(list, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		document, words, ok := strings.Cut(line, ": ")
		if !ok {
			return fmt.Errorf("figures.txt:%d: no document", i+1)
		}
		name := filepath.Join(root, document)
		text, ok := files[name]
		if !ok {
			var err error
			if text, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		after, err := f.correctFigures(string(text), words)
		if err != nil {
			return fmt.Errorf("figures.txt:%d: %s: %w", i+1, document, err)
		}
		files[name] = []byte(after)
	}
	return nil
}

// correctFigures returns the text with the figures of the words, which it has exactly once, with any breaks of lines.
func (f *figures) correctFigures(text, words string) (string, error) {
	pattern := ""
	rest := words
	var values []string
	for _, e := range expression.FindAllString(words, -1) {
		before, after, _ := strings.Cut(rest, e)
		value, err := f.execute("figures.txt", e)
		if err != nil {
			return "", err
		}
		pattern, rest, values = pattern+spaced(before)+`(-?[0-9][0-9.,]*)`, after, append(values, value)
	}
	pattern += spaced(rest)
	found := regexp.MustCompile(pattern).FindAllStringSubmatchIndex(text, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("the words %q are there %d times, want once", words, len(found))
	}
	for i := len(values) - 1; i >= 0; i-- {
		begin, end := found[0][2*i+2], found[0][2*i+3]
		text = text[:begin] + values[i] + text[end:]
	}
	return text, nil
}

// spaced returns a pattern for words with any white space between them.
func spaced(words string) string {
	parts := regexp.MustCompile(`\s+`).Split(words, -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return strings.Join(parts, `\s+`)
}
