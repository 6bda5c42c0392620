package envoy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// The shape of a file of envoyproxy/ratelimit. What only names
// metrics of that service (detailed_metric and its like) may be there and has no effect.
type (
	domainYAML struct {
		Domain      string           `yaml:"domain"`
		Descriptors []descriptorYAML `yaml:"descriptors"`
	}
	descriptorYAML struct {
		line int

		Key         string           `yaml:"key"`
		Value       string           `yaml:"value"`
		RateLimit   *rateLimitYAML   `yaml:"rate_limit"`
		ShadowMode  bool             `yaml:"shadow_mode"`
		Shared      bool             `yaml:"share_threshold"`
		Descriptors []descriptorYAML `yaml:"descriptors"`
	}
	rateLimitYAML struct {
		Unit            string `yaml:"unit"`
		RequestsPerUnit uint32 `yaml:"requests_per_unit"`
		Unlimited       bool   `yaml:"unlimited"`
		Name            string `yaml:"name"`
		Replaces        []struct {
			Name string `yaml:"name"`
		} `yaml:"replaces"`
	}
)

// UnmarshalYAML remembers the line, for errors.
func (d *descriptorYAML) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 { // a node's own Decode knows no KnownFields
		if name := n.Content[i].Value; !descriptorFields[name] {
			return fmt.Errorf("line %d: unknown field %q of a descriptor", n.Content[i].Line, name)
		}
	}
	type plain descriptorYAML
	err := n.Decode((*plain)(d))
	d.line = n.Line
	return err
}

var descriptorFields = map[string]bool{
	"key": true, "value": true, "rate_limit": true, "shadow_mode": true, "share_threshold": true, "descriptors": true,
	"detailed_metric": true, "value_to_metric": true, "metadata": true, // no effect
}

// File is a file of limits and its name, for errors.
type File struct {
	Name string
	Data []byte
}

// ParseLimits reads files in the form of envoyproxy/ratelimit, one domain each. Errors name the
// file and the line. Limits are fixed windows that begin with the unit, as in that service.
func ParseLimits(files []File) (*Limits, error) {
	l := &Limits{domains: map[string]*node{}}
	for _, f := range files {
		domain, root, err := parseDomain(f.Data)
		if err != nil {
			return nil, fmt.Errorf("envoy: %s: %w", f.Name, err)
		}
		if l.domains[domain] != nil {
			return nil, fmt.Errorf("envoy: %s: domain %q is in another file already", f.Name, domain)
		}
		l.domains[domain] = root
	}
	return l, nil
}

func parseDomain(data []byte) (string, *node, error) {
	var in domainYAML
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&in); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return "", nil, err
	}
	if in.Domain == "" {
		return "", nil, errors.New("domain is missing: the name that Envoy's filter has as domain")
	}
	root, err := nodeOf(in.Domain, in.Descriptors)
	return in.Domain, root, err
}

// nodeOf compiles the descriptors of one level; path names the level in limits without a name.
func nodeOf(path string, list []descriptorYAML) (*node, error) {
	n := &node{exact: map[entry]*node{}, any: map[string]*node{}}
	for i := range list {
		d := &list[i]
		if err := n.add(path, d); err != nil {
			return nil, fmt.Errorf("line %d: %w", d.line, err)
		}
	}
	return n, nil
}

func (n *node) add(path string, d *descriptorYAML) error {
	if d.Key == "" {
		return errors.New("a descriptor has no key")
	}
	path += "." + d.Key
	if d.Value != "" {
		path += "_" + d.Value
	}
	to, err := nodeOf(path, d.Descriptors)
	if err != nil {
		return err
	}
	if to.limit, err = limitOfYAML(path, d); err != nil {
		return err
	}
	isPattern := strings.Contains(d.Value, "*")
	if d.Shared && !isPattern {
		return fmt.Errorf("%s: share_threshold needs a value with a star", path)
	}
	twice := false
	switch e := (entry{d.Key, d.Value}); {
	case d.Value == "":
		twice = n.any[d.Key] != nil
		n.any[d.Key] = to
	case isPattern:
		twice = slices.ContainsFunc(n.patterns, func(p *pattern) bool { return p.key == d.Key && p.value == d.Value })
		n.patterns = append(n.patterns, &pattern{d.Key, d.Value, canon.NewGlob(d.Value), d.Shared, to})
	default:
		twice = n.exact[e] != nil
		n.exact[e] = to
	}
	if twice {
		return fmt.Errorf("%s is there twice", path)
	}
	return nil
}

// limitOfYAML is the limit of a descriptor, nil where it has none.
func limitOfYAML(path string, d *descriptorYAML) (*descriptorLimit, error) {
	y := d.RateLimit
	if y == nil {
		return nil, nil //nolint:nilnil // most have none
	}
	out := &descriptorLimit{name: y.Name}
	for _, r := range y.Replaces {
		if r.Name == "" || r.Name == y.Name {
			return nil, fmt.Errorf("%s: replaces names no other limit", path)
		}
		out.replaces = append(out.replaces, r.Name)
	}
	if y.Unlimited {
		if y.Unit != "" || y.RequestsPerUnit != 0 {
			return nil, fmt.Errorf("%s: unlimited stands beside unit or requests_per_unit", path)
		}
		return out, nil
	}
	u := slices.IndexFunc(units, func(u unit) bool { return u.name == strings.ToLower(y.Unit) })
	if u < 0 {
		return nil, fmt.Errorf("%s: unit %q is none of second, minute, hour, day, week, month, year", path, y.Unit)
	}
	out.limit = gate.NewLimit(cmp.Or(y.Name, path), fixedWindow(int64(y.RequestsPerUnit), units[u].of), d.ShadowMode)
	return out, nil
}

func fixedWindow(n int64, window time.Duration) limit.Spec {
	return limit.Spec{Algorithm: limit.FixedWindow, Limit: n, Window: window}
}

// compile makes a limit of what a descriptor brings along; nil where it brings none, or one whose
// unit means nothing.
func (o *ownLimit) compile() *gate.Limit {
	if o == nil {
		return nil
	}
	u := slices.IndexFunc(units, func(u unit) bool { return uint64(u.code) == o.unit })
	if u < 0 {
		return nil
	}
	window := units[u].of
	if o.multiplier > 1 {
		window *= time.Duration(min(o.multiplier, uint64(year/window)))
	}
	return gate.NewLimit("descriptor", fixedWindow(int64(o.requests), window), false)
}
