package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/hotparam/pipeline/bench/internal/chart"
)

// showDemo draws the three waves of a demo.
func showDemo(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var seen struct {
		Course []struct {
			OK, Denied, Failed, Site float64
		}
	}
	if err := json.Unmarshal(text, &seen); err != nil {
		return err
	}
	if len(seen.Course) == 0 {
		return fmt.Errorf("%s has no course: is it of hotparam demo -o json, with a --duration?", file)
	}
	var asked, answered, site []float64
	for _, s := range seen.Course {
		asked, answered, site = append(asked, s.OK+s.Denied+s.Failed), append(answered, s.OK), append(site, s.Site)
	}
	return chart.Drawing{{
		Title: "One topic goes viral three times: held to its limit, answered from memory, adaptive (slow from 26 s on)",
		Most:  1000,
		Lines: []chart.Line{{Name: "asked a second", Values: asked}, {Name: "the site was asked", Values: site},
			{Name: "answered", Values: answered}},
	}}.Write(documents + "/demo.svg")
}
