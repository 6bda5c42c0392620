package rules

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
)

// OverrideText is an override as a person writes it. It is read and checked like the overrides of the rules file.
type OverrideText struct {
	Override `name:",inline"`
	// For is how long it holds, in place of Until; 0 means that For is not set.
	For time.Duration `name:"for" in:"1ms..876000h"`
	// Seen is the version in a list of the admin API, or 0 if the list has no version.
	Seen int64
}

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

// ReadOverride reads the override in a JSON object, which is the body of a request at now. It has no ID, and For ends
// it from now on. canonical brings the target, if it is set, into canonical form before the override is checked. Errors
// are joined [*Error] with the fields of the object, in its order.
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
		v.At("id").Fail("is not a field of the body; it is part of the path")
	}
	if t := o.Target(); t.Value != "" && !v.Failed() {
		if err := canonical(&o.Override); err != nil {
			v.At(t.Kind).FailBy(err)
		}
	}
	v.Settle(&o)
	if !v.Failed() {
		o.setEnd(v, now)
	}
	return o.Override, v.Err()
}

// setEnd sets the end of an override that is made at now, and checks it.
func (o *OverrideText) setEnd(v conf.Value, now time.Time) {
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

type overrideList struct {
	Overrides []OverrideText `name:"overrides" required:"true"`
}

// listed are the fields that the admin API adds to an override in a list. Readers ignore them, except for the version.
var listed = []string{
	"active", "created", "hits", "hits_per_second", "href", "next", "source", "version", "warnings", "would_deny",
	"would_deny_per_second",
}

// ReadOverrides reads a list of overrides in YAML or JSON, as the admin API lists them. It leaves out overrides with
// the source "file", because only the rules file changes them. Errors are joined [*Error].
func ReadOverrides(file string, data []byte) ([]OverrideText, error) {
	read := conf.Document
	if json.Valid(data) {
		read = conf.JSON
	}
	root, err := read(file, data)
	if err != nil {
		return nil, err
	}
	var seen []int64
	if root != nil && root.Kind == yaml.MappingNode {
		for i := 1; i < len(root.Content); i += 2 {
			entries := root.Content[i]
			entries.Content = slices.DeleteFunc(entries.Content, isFromFile)
			for _, n := range entries.Content {
				seen = append(seen, removeListFields(n))
			}
		}
	}
	var list overrideList
	v := schema.Decode(file, root, &list)
	v.Settle(&list)
	for i := range list.Overrides[:min(len(seen), len(list.Overrides))] {
		list.Overrides[i].Seen = seen[i]
	}
	return list.Overrides, v.Err()
}

func isFromFile(entry *yaml.Node) bool {
	for i := 0; entry.Kind == yaml.MappingNode && i+1 < len(entry.Content); i += 2 {
		if entry.Content[i].Value == "source" && entry.Content[i+1].Value == "file" {
			return true
		}
	}
	return false
}

// removeListFields removes the fields that a list adds to an override, and returns the version among them.
func removeListFields(entry *yaml.Node) (version int64) {
	for i := 0; entry.Kind == yaml.MappingNode && i+1 < len(entry.Content); {
		if slices.Contains(listed, entry.Content[i].Value) {
			if entry.Content[i].Value == "version" {
				version, _ = strconv.ParseInt(entry.Content[i+1].Value, 10, 64) // 0 if it is not a number
			}
			entry.Content = slices.Delete(entry.Content, i, i+2)
			continue
		}
		i += 2
	}
	return version
}

// Target is the target of an override: the field of key, resource, client, cidr and class that is set.
type Target struct{ Kind, Value string }

// The kinds of a target. They are the names of the fields.
const (
	TargetKey      = "key"
	TargetResource = "resource"
	TargetClient   = "client"
	TargetCIDR     = "cidr"
	TargetClass    = "class"
)

// String returns the key, or the kind and the value: "client 203.0.113.9". No key can be mistaken for it, because a key
// contains no bare space.
func (t Target) String() string {
	if t.Kind == TargetKey || t.Kind == "" {
		return t.Value
	}
	return t.Kind + " " + t.Value
}

// Target returns the target of the override, or the zero Target if no field is set.
func (o Override) Target() Target {
	for _, t := range o.targetFields() {
		if t.Value != "" {
			return t
		}
	}
	return Target{}
}

func (o Override) targetFields() [5]Target {
	return [...]Target{
		{TargetKey, o.Key}, {TargetResource, o.Resource}, {TargetClient, o.Client}, {TargetCIDR, o.CIDR},
		{TargetClass, o.Class},
	}
}

// OfClients reports whether the target of the override is clients and not keys.
func (o Override) OfClients() bool { return o.Client != "" || o.CIDR != "" || o.Class != "" }

// Network returns the network of an override of a client or a CIDR, or the zero Prefix for other overrides. A client of
// IPv6 is a /64.
func (o Override) Network() netip.Prefix {
	if o.CIDR != "" {
		p, _ := netip.ParsePrefix(o.CIDR)
		return p
	}
	a, err := netip.ParseAddr(o.Client)
	if err != nil {
		return netip.Prefix{}
	}
	c := hottype.ClientFromAddr(a).Addr
	return netip.PrefixFrom(c, min(c.BitLen(), 64))
}

func (o Override) validateTarget() error {
	t := o.Target()
	if t.Value == "" {
		return fieldError(TargetKey, "override has no key, resource, client, cidr or class")
	}
	for _, other := range o.targetFields() {
		if other.Value != "" && other.Kind != t.Kind {
			return fieldError(t.Kind, "override has both %s and %s; make it two, with one of them each", t.Kind,
				other.Kind)
		}
	}
	switch {
	case t.Kind == TargetKey:
		return o.validateKey()
	case len(t.Value) > maxKeyBytes:
		return fieldError(t.Kind, "%s %.40q… of override has %d bytes, more than %d", t.Kind, t.Value, len(t.Value),
			maxKeyBytes)
	case t.Kind == TargetClass && !plainName.MatchString(t.Value):
		return fieldError(t.Kind, "class %.80q of override is not the name of a class", t.Value)
	case t.Kind == TargetClient || t.Kind == TargetCIDR:
		return t.validateNetwork()
	case t.Kind == TargetResource && (strings.Contains(t.Value, "?") || hasControl(t.Value)):
		return fieldError(t.Kind,
			"resource %.80q of override is neither a rule's name nor a path; one of its keys is written as key",
			t.Value)
	case t.Kind == TargetResource:
		if err := canon.Check(hottype.Key(t.Value)); err != nil {
			return fieldError(t.Kind, "resource of override: %w", err)
		}
	}
	return nil
}

func (t Target) validateNetwork() error {
	c, err := t.Canonical()
	switch {
	case err != nil:
		return &conf.FieldError{Field: t.Kind, Err: err}
	case c != t.Value:
		return fieldError(t.Kind, "%s %q of override: write %q", t.Kind, t.Value, c)
	}
	return nil
}

// Canonical returns the canonical form of the address of a client or the network of a CIDR. Other values are returned
// unchanged.
func (t Target) Canonical() (string, error) {
	switch t.Kind {
	case TargetClient:
		a, err := netip.ParseAddr(t.Value)
		if err != nil || a.Zone() != "" {
			return "", fmt.Errorf("rules: client %.80q of override is not an address such as 2001:db8:: or 203.0.113.9",
				t.Value)
		}
		return hottype.ClientFromAddr(a).String(), nil
	case TargetCIDR:
		p, err := netip.ParsePrefix(t.Value)
		switch {
		case err != nil:
			return "", fmt.Errorf("rules: cidr %.80q of override is not a network such as 203.0.113.0/24", t.Value)
		case p.Addr().Is4In6():
			return "", fmt.Errorf("rules: cidr %q of override is IPv4 written as IPv6; write the IPv4 network", t.Value)
		case p.Addr().Is6() && p.Bits() > 64:
			return "",
				fmt.Errorf("rules: cidr %q of override is longer than /64, and a client of IPv6 is a /64; write %s",
					t.Value, netip.PrefixFrom(p.Addr(), 64).Masked())
		}
		return p.Masked().String(), nil
	}
	return t.Value, nil
}
