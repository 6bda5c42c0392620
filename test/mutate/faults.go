package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tables are the faults as text. A line that begins with # is a comment, and an empty line ends a fault:
//
//	refund-without-expiry                  its name
//	file lua/limit_refund.lua              its file, from the root of the repository
//	test ./internal/storage/redislimits Expire     package and -run pattern of the tests that should notice
//	seeds 100                             only for ./test/fleet: the number of seeds
//	- 'SET', key, text, 'KEEPTTL')         the code, once in the file, in one line or several
//	+ 'SET', key, text)                    its replacement, or no such line to remove it
//
//go:embed faults/*.txt
var tables embed.FS

// fault is one change that some test should notice.
type fault struct {
	name       string
	file       string // from the root of the repository
	pkg, tests string // tests is a pattern for -run
	old, new   string
	seeds      int    // of test/fleet, or 0 for its default
	text       string // of the whole file with the fault, if a rule made it; old and new are not used then
}

// load reads all tables.
func load() ([]fault, error) {
	names, err := fs.Glob(tables, "faults/*.txt")
	if err != nil {
		return nil, err
	}
	var all []fault
	known := map[string]bool{}
	for _, name := range names {
		text, err := tables.ReadFile(name)
		if err != nil {
			return nil, err
		}
		faults, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		for _, f := range faults {
			if known[f.name] {
				return nil, fmt.Errorf("%s: two faults are called %s", name, f.name)
			}
			known[f.name] = true
		}
		all = append(all, faults...)
	}
	return all, nil
}

// parse reads one table; name is for errors.
func parse(name, text string) ([]fault, error) {
	var all []fault
	var block []string
	for i, line := range append(strings.Split(text, "\n"), "") {
		switch {
		case strings.HasPrefix(line, "#"):
		case line != "":
			block = append(block, line)
		case len(block) > 0:
			f, err := parseFault(block)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, i+1-len(block), err)
			}
			all, block = append(all, f), nil
		}
	}
	return all, nil
}

func parseFault(lines []string) (fault, error) {
	f := fault{name: lines[0]}
	var before, after []string
	for _, line := range lines[1:] {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "file":
			f.file = rest
		case "test":
			f.pkg, f.tests, _ = strings.Cut(rest, " ")
		case "seeds":
			if f.seeds, _ = strconv.Atoi(rest); f.seeds <= 0 {
				return f, fmt.Errorf("fault %s: seeds %q: want a number", f.name, rest)
			}
		case "-":
			before = append(before, rest)
		case "+":
			after = append(after, rest)
		default:
			return f, fmt.Errorf("fault %s: a line begins with %q, want file, test, seeds, - or +", f.name, word)
		}
	}
	f.old, f.new = strings.Join(before, "\n"), strings.Join(after, "\n")
	switch {
	case strings.Contains(f.name, " "):
		return f, fmt.Errorf("fault %q: a name has no spaces", f.name)
	case f.file == "" || f.pkg == "" || f.tests == "" || f.old == "":
		return f, fmt.Errorf("fault %s needs a file, a test with package and pattern, and what is there (-)", f.name)
	case f.old == f.new:
		return f, fmt.Errorf("fault %s changes nothing", f.name)
	}
	return f, nil
}

// plant returns the text of the fault's file with the fault in it.
func (f fault) plant(root string) (string, error) {
	if f.text != "" {
		return f.text, nil
	}
	text, err := os.ReadFile(filepath.Join(root, f.file))
	if err != nil {
		return "", fmt.Errorf("fault %s: %w", f.name, err)
	}
	if n := strings.Count(string(text), f.old); n != 1 {
		return "", fmt.Errorf("fault %s does not fit the code any more: %s has %d times, want once:\n%s\n"+
			"fix the table in test/mutate/faults so that it plants the same fault in the code of today", f.name,
			f.file, n, f.old)
	}
	return strings.Replace(string(text), f.old, f.new, 1), nil
}
