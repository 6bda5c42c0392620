package envoy

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// The shape of a file of envoyproxy/ratelimit.
type (
	domainYAML struct {
		Domain      text             `name:"domain"`
		Descriptors []descriptorYAML `name:"descriptors"`
	}
	descriptorYAML struct {
		Key         text             `name:"key"`
		Value       text             `name:"value"`
		RateLimit   *rateLimitYAML   `name:"rate_limit"`
		ShadowMode  bool             `name:"shadow_mode"`
		Shared      bool             `name:"share_threshold"`
		Descriptors []descriptorYAML `name:"descriptors"`

		DetailedMetric unused `name:"detailed_metric"`
		ValueToMetric  unused `name:"value_to_metric"`
		Metadata       unused `name:"metadata"`
	}
	rateLimitYAML struct {
		Unit            text           `name:"unit"`
		Multiplier      int64          `name:"unit_multiplier" default:"1" in:"1..31536000"`
		RequestsPerUnit int64          `name:"requests_per_unit" in:"0..4294967295"`
		Unlimited       bool           `name:"unlimited"`
		Name            text           `name:"name"`
		Replaces        []replacesYAML `name:"replaces"`
	}
	replacesYAML struct {
		Name text `name:"name"`
	}
	// text is any scalar, because envoyproxy/ratelimit reads the value 42 as the text 42.
	text string
	// unused is a field that only names metrics of envoyproxy/ratelimit, and has no effect here.
	unused struct{}
)

// fileSchema reads files of limits in the same way as hotparam's own file.
var fileSchema = newFileSchema()

func newFileSchema() *conf.Schema {
	s := new(conf.Schema)
	conf.Add(s, conf.Of[text]{Read: func(v conf.Value, t *text) {
		read, _ := v.Scalar("a text", "!!str", "!!int", "!!float", "!!bool", "!!timestamp")
		*t = text(read)
	}})
	conf.Add(s, conf.Of[unused]{Read: func(conf.Value, *unused) {}})
	conf.Add(s, conf.Of[domainYAML]{Unknown: snakeCase[domainYAML]})
	conf.Add(s, conf.Of[descriptorYAML]{Unknown: func(name string) string {
		if name == "quota_mode" {
			return "is not supported; leave it out"
		}
		return snakeCase[descriptorYAML](name)
	}, Check: checkDescriptor})
	conf.Add(s, conf.Of[rateLimitYAML]{Unknown: snakeCase[rateLimitYAML], Check: checkRateLimit})
	conf.Add(s, conf.Of[replacesYAML]{Unknown: snakeCase[replacesYAML]})
	return s
}

// snakeCase suggests requests_per_unit for requestsPerUnit, as tools that convert to JSON write it. It returns "" for
// any other name.
func snakeCase[T any](name string) string {
	var snake strings.Builder
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			snake.WriteByte('_')
			c += 'a' - 'A'
		}
		snake.WriteRune(c)
	}
	if snake.String() == name || !slices.ContainsFunc(conf.Fields(reflect.TypeFor[T]()), func(f conf.Field) bool {
		return f.Name == snake.String()
	}) {
		return ""
	}
	return "unknown field; did you mean " + strconv.Quote(snake.String()) + "?"
}

func checkDescriptor(v conf.Value, d *descriptorYAML) {
	v.Require("key")
	if d.Shared && !strings.Contains(string(d.Value), "*") {
		v.At("share_threshold").Fail("needs a value with a star")
	}
}

func checkRateLimit(v conf.Value, y *rateLimitYAML) {
	for i, r := range y.Replaces {
		if r.Name == "" || r.Name == y.Name {
			v.At("replaces").Entry(i).Fail("names no other limit")
		}
	}
	if y.Unlimited {
		for _, name := range []string{"unit", "unit_multiplier", "requests_per_unit"} {
			if v.Has(name) {
				v.At(name).Fail("is set beside unlimited; leave one of them")
			}
		}
		return
	}
	v.Require("unit", "requests_per_unit")
	if unit := v.At("unit"); v.Has("unit") && !unit.Failed() && y.windowLength() == 0 {
		unit.Fail("%q must be one of %s", conf.Cut(string(y.Unit)), strings.Join(unitNames(), ", "))
	}
	if multiplier := v.At("unit_multiplier"); y.windowLength() > year && !multiplier.Failed() {
		multiplier.Fail("%d %ss are longer than a year", y.Multiplier, y.Unit)
	}
}

// windowLength returns the length of the window of the limit, or 0 if its unit is unknown.
func (y *rateLimitYAML) windowLength() time.Duration {
	u := slices.IndexFunc(units, func(u unit) bool { return u.name == strings.ToLower(string(y.Unit)) })
	if u < 0 {
		return 0
	}
	if y.Multiplier > int64(year/units[u].length) {
		return year + 1
	}
	return time.Duration(y.Multiplier) * units[u].length
}

func unitNames() (names []string) {
	for _, u := range units {
		names = append(names, u.name)
	}
	return names
}

// File is a file of limits and its name, for errors.
type File struct {
	Name string
	Data []byte
}

// ParseLimits reads files in the form of envoyproxy/ratelimit, one domain each. Errors are joined [*conf.Error] with
// file, line and field. Limits are fixed windows that begin with the unit, as in that service.
func ParseLimits(files []File) (*Limits, error) {
	l := &Limits{domains: map[string]*node{}}
	var errs []error
	for _, f := range files {
		errs = append(errs, l.parse(f))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Limits) parse(f File) error {
	root, err := conf.Document(f.Name, f.Data)
	if err != nil {
		return err
	}
	if root != nil {
		left := maxNodes
		if root = withoutAliases(root, maxDepth, &left); left < 0 {
			return &conf.Error{File: f.Name, Message: "is nested too deeply, or aliases make it too large"}
		}
	}
	in := new(domainYAML)
	v := fileSchema.Decode(f.Name, root, in)
	v.Settle(in)
	if !v.Has("domain") {
		v.At("domain").Fail("is missing: the name that Envoy's filter has as domain")
	}
	if l.domains[string(in.Domain)] != nil {
		v.At("domain").Fail("%q is in another file already", conf.Cut(string(in.Domain)))
	}
	if v.Err() == nil {
		l.domains[string(in.Domain)] = nodeOf(v, string(in.Domain), in.Descriptors)
	}
	return v.Err()
}

// Bounds of a file after its aliases are written out: aliases of aliases grow exponentially, and an alias may contain
// itself.
const (
	maxNodes = 1 << 20
	maxDepth = 1000
)

// withoutAliases copies a node with each alias replaced by its anchor's value. It takes left below 0 and stops if there
// are more than left nodes, or more than depth levels.
func withoutAliases(n *yaml.Node, depth int, left *int) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	c := *n
	c.Anchor, c.Content = "", nil
	for _, child := range n.Content {
		if *left--; *left < 0 || depth == 0 {
			*left = -1
			break
		}
		c.Content = append(c.Content, withoutAliases(child, depth-1, left))
	}
	return &c
}

// nodeOf compiles the descriptors of one level, which v holds; path names the level in limits without a name.
func nodeOf(v conf.Value, path string, list []descriptorYAML) *node {
	n := &node{exact: map[entry]*node{}, any: map[string]*node{}}
	for i := range list {
		n.add(v.At("descriptors").Entry(i), path, &list[i])
	}
	return n
}

func (n *node) add(v conf.Value, path string, d *descriptorYAML) {
	e := entry{string(d.Key), string(d.Value)}
	path += "." + e.key
	if e.value != "" {
		path += "_" + e.value
	}
	to := nodeOf(v, path, d.Descriptors)
	to.limit = limitOfYAML(path, d)
	twice := false
	switch {
	case e.value == "":
		twice = n.any[e.key] != nil
		n.any[e.key] = to
	case strings.Contains(e.value, "*"):
		twice = slices.ContainsFunc(n.patterns, func(p *pattern) bool { return p.key == e.key && p.value == e.value })
		n.patterns = append(n.patterns, &pattern{e.key, e.value, canon.NewGlob(e.value), d.Shared, to})
	default:
		twice = n.exact[e] != nil
		n.exact[e] = to
	}
	if twice {
		v.Fail("%s is there twice", conf.Cut(path))
	}
}

// limitOfYAML returns the limit of a descriptor, or nil if it has none.
func limitOfYAML(path string, d *descriptorYAML) *descriptorLimit {
	y := d.RateLimit
	if y == nil {
		return nil
	}
	out := &descriptorLimit{name: string(y.Name)}
	for _, r := range y.Replaces {
		out.replaces = append(out.replaces, string(r.Name))
	}
	if !y.Unlimited {
		out.limit = gate.NewLimit(cmp.Or(out.name, path), fixedWindow(y.RequestsPerUnit, y.windowLength()),
			d.ShadowMode)
	}
	return out
}

func fixedWindow(n int64, window time.Duration) limit.Spec {
	return limit.Spec{Algorithm: limit.FixedWindow, Limit: n, Window: window}
}

// compile returns the limit that a descriptor carries, or nil if it carries no limit, or one with an unknown unit.
func (o *ownLimit) compile() *gate.Limit {
	if o == nil {
		return nil
	}
	u := slices.IndexFunc(units, func(u unit) bool { return u.code == o.unit })
	if u < 0 {
		return nil
	}
	window := units[u].length
	if o.multiplier > 1 {
		window *= time.Duration(min(o.multiplier, uint64(year/window)))
	}
	return gate.NewLimit("descriptor", fixedWindow(int64(o.requests), window), false)
}
