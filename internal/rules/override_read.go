package rules

import (
	"encoding/json"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/conf"
)

// OverrideText is an override as a person writes it. It is read and checked as those of the rules file are.
type OverrideText struct {
	Override `name:",inline"`
	// For is how long it holds, in place of Until; 0 is not set.
	For time.Duration `name:"for" in:"1ms..876000h"`
}

// checkOverride completes an override and checks it.
func checkOverride(v conf.Value, o *Override) {
	if v.Failed() {
		return
	}
	if o.Target().Value == "" {
		v.At("key").Fail("is missing; or write resource, client, cidr or class")
	}
	if o.Action == ActionLimit {
		v.Require("rate")
	}
	if o.Mode == hottype.ModeEnforce {
		o.Mode = "" // as it is stored
	}
	v.Validate(o.Validate)
}

func checkOverrideText(v conf.Value, o *OverrideText) {
	if v.Has("until") && v.Has("for") {
		v.At("for").Fail("until is set too; leave one of them")
	}
	checkOverride(v, &o.Override)
}

// ReadOverride reads the override that a JSON object holds, the body of a request at now. It has no ID, and For ends
// it from now on. Canonical brings its target, which is set, into canonical form before it is checked. Errors are
// joined [*Error] with the fields of the object, in its order.
func ReadOverride(name string, body []byte, now time.Time, canonical func(*Override) error) (Override, error) {
	root, err := conf.JSON(name, body)
	if err != nil {
		return Override{}, err
	}
	if root.Kind != yaml.MappingNode {
		return Override{}, &Error{File: name, Line: root.Line, Column: root.Column, Message: "is not a JSON object"}
	}
	var o OverrideText
	v := schema.Decode(name, root, &o)
	if v.Has("id") {
		v.At("id").Fail("is no field of the body; it is part of the path")
	}
	if t := o.Target(); t.Value != "" && !v.Failed() {
		if err := canonical(&o.Override); err != nil {
			v.At(t.Kind).FailBy(err)
		}
	}
	v.Settle(&o)
	if !v.Failed() {
		o.end(v, now)
	}
	return o.Override, v.Err()
}

// end checks when an override ends that is set at now.
func (o *OverrideText) end(v conf.Value, now time.Time) {
	switch {
	case o.For > 0:
		o.Until = now.Add(o.For).UTC().Truncate(time.Millisecond)
	case v.Has("until") && !o.Until.After(now):
		v.At("until").Fail("%s has passed", o.Until.Format(time.RFC3339))
	}
	if !o.Schedule.IsZero() && o.Window(now) == (Window{}) {
		v.At("schedule").Fail("no window of %s begins before the override ends", o.Schedule)
	}
}

// overrideList is a file of overrides.
type overrideList struct {
	Overrides []OverrideText `name:"overrides" required:"true"`
}

// listed are the fields that the admin API adds to an override when it lists it. They say nothing to a reader.
var listed = []string{
	"active", "created", "hits", "hits_per_second", "href", "next", "source", "warnings", "would_deny",
	"would_deny_per_second",
}

// ReadOverrides reads a list of overrides in YAML or JSON, as the admin API lists them; those with the source "file"
// are left out, because only the rules file changes them. Errors are joined [*Error].
func ReadOverrides(file string, data []byte) ([]OverrideText, error) {
	read := conf.Document
	if json.Valid(data) {
		read = conf.JSON
	}
	root, err := read(file, data)
	if err != nil {
		return nil, err
	}
	if root != nil && root.Kind == yaml.MappingNode {
		for i := 1; i < len(root.Content); i += 2 {
			entries := root.Content[i]
			entries.Content = slices.DeleteFunc(entries.Content, isOfFile)
			for _, n := range entries.Content {
				unlist(n)
			}
		}
	}
	var list overrideList
	v := schema.Decode(file, root, &list)
	v.Settle(&list)
	return list.Overrides, v.Err()
}

func isOfFile(entry *yaml.Node) bool {
	for i := 0; entry.Kind == yaml.MappingNode && i+1 < len(entry.Content); i += 2 {
		if entry.Content[i].Value == "source" && entry.Content[i+1].Value == "file" {
			return true
		}
	}
	return false
}

// unlist takes away what a list adds to an override.
func unlist(entry *yaml.Node) {
	for i := 0; entry.Kind == yaml.MappingNode && i+1 < len(entry.Content); {
		if slices.Contains(listed, entry.Content[i].Value) {
			entry.Content = slices.Delete(entry.Content, i, i+2)
			continue
		}
		i += 2
	}
}
