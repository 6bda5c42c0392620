package main

import (
	"encoding/json"
	"fmt"
	"os"
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
	return drawing{{
		title: "One topic goes viral three times: held to its limit, answered from memory, adaptive (slow from 26 s on)",
		most:  1000,
		lines: []line{{"asked a second", asked}, {"the site was asked", site}, {"answered", answered}},
	}}.write(documents + "/demo.svg")
}
