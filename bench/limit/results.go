package main

import (
	"fmt"
	"os/exec"
	"regexp"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// results holds all measurements: results.json.
type results struct {
	Seed       uint64     `json:"seed"`
	Commit     string     `json:"commit"`
	Machine    string     `json:"machine"`
	Load       string     `json:"load"` // of the machine, before and after
	Took       string     `json:"took"` // downloads and builds not counted
	Go         string     `json:"go"`
	Redis      string     `json:"redis"`
	Contenders []facts    `json:"contenders"`
	Accuracy   []accuracy `json:"accuracy"`
	Faults     []outcome  `json:"faults"`
	// Missing has the contenders that could not be had, with the reason.
	Missing map[string]string `json:"missing"`
}

// facts describe a contender.
type facts struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// write writes the tables of the page, and the picture.
func write(dir string, r *results) error {
	files, err := render(dir, r)
	if err != nil {
		return err
	}
	return measure.WriteFiles(files)
}

// render returns the files that are made from results, by name.
func render(dir string, r *results) (map[string][]byte, error) {
	files, err := measure.RenderPage(dir, "bench/limit", tables(r), pictures(r))
	if err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	if err := measure.RenderPart(files, dir, "bench/limit", documentTable(r)); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	return files, nil
}

var number = regexp.MustCompile(`\d+\.\d+[.\d]*`)

// versionBy returns the first version in the output of a program.
func versionBy(program string, args ...string) string {
	out, err := exec.Command(program, args...).CombinedOutput() // nginx writes it to standard error
	if err != nil {
		return "unknown"
	}
	return number.FindString(string(out))
}
