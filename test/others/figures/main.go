// Figures reads the outcomes that suites wrote into a folder, prints them as a table, and writes them into one file.
//
//	go run ./figures -dir ../../bin/others -out ../../bin/others.json
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hotparam/pipeline/test/internal/figures"
)

// document holds the outcomes of all suites, and the circumstances.
type document struct {
	Commit   string            `json:"commit"`
	At       time.Time         `json:"at"`
	Machine  machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Suites   []figures.Suite   `json:"suites"`
}

// machine describes the machine on which the suites ran.
type machine struct {
	System     string `json:"system"`
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
}

func main() {
	dir := flag.String("dir", "", "folder of the outcomes")
	out := flag.String("out", "", "file of the document")
	flag.Parse()
	if err := run(*dir, *out); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(dir, out string) error {
	suites, err := read(dir)
	if err != nil {
		return err
	}
	d := document{
		Commit:  firstLine("git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"),
		At:      time.Now().UTC(),
		Machine: machine{runtime.GOOS + "/" + runtime.GOARCH, processor(), runtime.NumCPU()},
		Versions: map[string]string{"go": runtime.Version(), "redis": firstLine("redis-server", "--version"),
			"python": firstLine("python3", "--version"), "node": firstLine("node", "--version")},
		Suites: suites,
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = os.WriteFile(out, append(data, '\n'), 0o644)
	}
	return errors.Join(err, print(os.Stdout, suites))
}

// read reads the outcomes of all suites, in the order of their names.
func read(dir string) (list []figures.Suite, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		var s figures.Suite
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no suite wrote its outcome", dir)
	}
	slices.SortFunc(list, func(a, b figures.Suite) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func print(w io.Writer, suites []figures.Suite) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "suite\tversion\tcases\tpass\tdiffer\tseconds\t")
	for _, s := range suites {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%.1f\t\n", s.Name, s.Version, s.Cases, s.Passed, s.Cases-s.Passed,
			s.Seconds)
	}
	return table.Flush()
}

// firstLine returns the first line that a program prints, or "" if there is no such program.
func firstLine(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output() //nolint:noctx // it ends at once
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// processor returns the model of the processor, or "" if the system does not state it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
