package main

import (
	"fmt"

	"github.com/hotparam/pipeline/bench/internal/measure"
)

// results holds all measurements: results.json.
type results struct {
	Seed     uint64            `json:"seed"`
	Commit   string            `json:"commit"`
	Machine  string            `json:"machine"`
	Load     string            `json:"load"` // of the machine, before and after
	Took     string            `json:"took"` // downloads and builds not counted
	Versions map[string]string `json:"versions"`
	Traces   []traceFacts      `json:"traces"`
	Scores   []row             `json:"scores"` // with the common budget
	Sizes    []row             `json:"sizes"`  // of some traces, with other budgets
	Costs    []cost            `json:"costs"`
}

// traceFacts describe a trace.
type traceFacts struct {
	Name     string  `json:"name"`
	About    string  `json:"about"`
	Requests int     `json:"requests"`
	Keys     int     `json:"keys"`
	Seconds  float64 `json:"seconds"`
	Hot      int     `json:"hot"`
}

// row is the score of a contender on a trace with a budget.
type row struct {
	Trace     string `json:"trace"`
	Contender string `json:"contender"`
	Budget    int    `json:"budget"`
	Bytes     int    `json:"bytes"` // as the collector finds at the end
	score
}

// write writes the tables of the page, and the pictures.
func write(dir string, r *results) error {
	files, err := render(dir, r)
	if err != nil {
		return err
	}
	return measure.WriteFiles(files)
}

// render returns the files that are made from results, by name.
func render(dir string, r *results) (map[string][]byte, error) {
	files, err := measure.RenderPage(dir, "bench/hot", tables(r), pictures(r))
	if err != nil {
		return nil, fmt.Errorf("hot: %w", err)
	}
	if err := measure.RenderPart(files, dir, "bench/hot", documentTable(r)); err != nil {
		return nil, fmt.Errorf("hot: %w", err)
	}
	return files, nil
}
