package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/textfile"
)

// ruleSections are the top-level names of the file that package rules reads.
var ruleSections = []string{"namespace", "rules", "ip", "classes", "overrides", "query_bounds", "parse_as",
	"upstreams", "redact"}

// file resolves settings from the YAML file for kong. It is loaded when kong asks for the first flag, because only then
// is the value of --config known.
type file struct {
	path   string
	data   []byte
	loaded bool
	secret []byte                // for the hashes of redacted values
	values map[string]*yaml.Node // "redis.addr" -> its node
	errs   []error
	// forwards is true if the program forwards requests to an upstream by itself. The default rules adapt to the
	// upstream then.
	forwards bool
	// stored holds rules from a central store in place of the rules of the file, or nil if the file's rules are in
	// force.
	stored *storedRules
}

var _ kong.Resolver = (*file)(nil)

// Validate does nothing and is part of kong.Resolver. The file is checked when it is loaded.
func (f *file) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a flag in the file, or nil if the file has no value or the environment overrides it.
// Errors are kept and reported together, by line, after parsing.
func (f *file) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !f.loaded {
		f.loaded = true
		f.load(configPath(ctx))
	}
	node, ok := f.values[flag.Name]
	if !ok || isEnvSet(flag) {
		return nil, nil
	}
	return textOf(flag, node)
}

// configPath returns the value of --config of the chosen command, or "" if there is none.
func configPath(ctx *kong.Context) string {
	for _, flag := range ctx.Flags() {
		if flag.Name == "config" {
			s, _ := ctx.FlagValue(flag).(string)
			return s
		}
	}
	return ""
}

func isEnvSet(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}

func (f *file) load(path string) {
	if path == "" {
		return
	}
	data, err := textfile.Read(path)
	if err != nil {
		f.path = path
		f.errs = append(f.errs, fmt.Errorf("config: %w", err))
		return
	}
	f.setData(path, data)
}

func (f *file) setData(path string, data []byte) {
	f.path, f.data = path, data
	// Package rules reports text that is not YAML: it reads the same bytes and names the line of the error.
	if top := topLevel(data); top != nil {
		f.readSettings(top)
	}
}

// topLevel returns the top-level mapping of a file, or nil if there is none.
func topLevel(data []byte) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) != 1 ||
		doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	return doc.Content[0]
}

func (f *file) readSettings(top *yaml.Node) {
	f.values = map[string]*yaml.Node{}
	read := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		section, body := top.Content[i], top.Content[i+1]
		if slices.Contains(ruleSections, section.Value) || !isSection(section.Value) {
			continue // rules reports unknown sections, with its own suggestions
		}
		if read[section.Value] {
			continue // rules reports sections that occur twice
		}
		read[section.Value] = true
		if body.Kind != yaml.MappingNode {
			f.fail(body.Line, section.Value, errors.New("must be a mapping of settings"))
			continue
		}
		for j := 0; j+1 < len(body.Content); j += 2 {
			f.readSetting(section.Value+"."+body.Content[j].Value, body.Content[j].Line, body.Content[j+1])
		}
	}
}

func (f *file) readSetting(name string, line int, value *yaml.Node) {
	known := knownFlags()
	if known[name] == nil {
		f.fail(line, name, fmt.Errorf("unknown setting%s", conf.Suggest(name, slices.Sorted(maps.Keys(known)))))
		return
	}
	if f.values[name] != nil {
		f.fail(line, name, errors.New("is set twice"))
		return
	}
	f.values[name] = value
	if err := checkFlag(known[name], value); err != nil {
		f.fail(line, name, err)
	}
}

func (f *file) fail(line int, name string, err error) {
	f.errs = append(f.errs, fmt.Errorf("%s:%d: %s: %w", f.path, line, name, err))
}

// checkFlag parses a value as its flag would, and discards the result.
func checkFlag(flag *kong.Flag, n *yaml.Node) error {
	v, err := textOf(flag, n)
	if err != nil {
		return err
	}
	scratch := reflect.New(flag.Target.Type()).Elem()
	value := *flag.Value // Parse marks its value as set, and all share the flag
	if err := value.Parse(kong.Scan().PushTyped(v, kong.FlagValueToken), scratch); err != nil {
		return cmp.Or(errors.Unwrap(err), err) // without the flag: the line of the file names the setting
	}
	if flag.Enum != "" && !flag.EnumMap()[v] {
		return fmt.Errorf("%q must be one of %s", v, flag.Enum)
	}
	return checkValue(flag, scratch)
}

// processNameChecks holds the check of the value of each setting that names a process. Redis would reject the reports
// of a limiter, or the hot set of an aggregator, whose name is invalid.
var processNameChecks = map[string]func(string) bool{
	"gate.instance": conf.ValidID, "aggregator.id": conf.ValidID, "kafka.instance": conf.ValidInstance,
}

// checkValue returns an error for a number or time below 0, which no setting accepts, and for an invalid name of a
// process.
func checkValue(flag *kong.Flag, value reflect.Value) error {
	if value.CanInt() && value.Int() < 0 || value.CanFloat() && value.Float() < 0 {
		return fmt.Errorf("%v is below 0; the default is %s", value.Interface(), flag.Default)
	}
	if valid := processNameChecks[flag.Name]; valid != nil && value.String() != "" && !valid(value.String()) {
		return fmt.Errorf("%.200q cannot name a process; write up to 128 of a-z A-Z 0-9 . _ -, without spaces, "+
			"such as news-1", value.String())
	}
	return nil
}

func textOf(flag *kong.Flag, n *yaml.Node) (string, error) {
	if _, ok := flag.Target.Addr().Interface().(*Webhooks); ok {
		text, err := yaml.Marshal(n)
		return string(text), err
	}
	return flagText(n)
}

// flagText returns a node as the text of a flag. The node is plain text, or a list or mapping of plain text.
func flagText(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "", errors.New("has no value")
		}
		return n.Value, nil
	case yaml.SequenceNode:
		parts, err := listItems(n)
		return kong.JoinEscaped(parts, ','), err
	case yaml.MappingNode:
		var parts []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := entryText(n.Content[i+1])
			if err != nil {
				return "", fmt.Errorf("%s: %w", n.Content[i].Value, err)
			}
			parts = append(parts, n.Content[i].Value+"="+v)
		}
		return kong.JoinEscaped(parts, ';'), nil
	}
	return "", errors.New("must be plain text, a list or a mapping")
}

// entryText returns the text of a value of a mapping, which is plain text or a list of it.
func entryText(n *yaml.Node) (string, error) {
	if n.Kind != yaml.SequenceNode {
		if n.Kind != yaml.ScalarNode {
			return "", errors.New("must be plain text or a list of it")
		}
		return n.Value, nil
	}
	parts, err := listItems(n)
	return strings.Join(parts, ","), err
}

func listItems(n *yaml.Node) ([]string, error) {
	parts := make([]string, len(n.Content))
	for i, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("item %d must be plain text", i+1)
		}
		parts[i] = c.Value
	}
	return parts, nil
}

// allErrors returns all errors of the file if a setting is wrong. The rules are checked too, so that a person can
// correct all errors at once.
func (f *file) allErrors() error {
	if len(f.errs) == 0 {
		return nil
	}
	errs := f.errs
	if f.data != nil {
		if _, err := f.rulesOf(nil); err != nil {
			errs = append(errs[:len(errs):len(errs)], err)
		}
	}
	return errors.Join(errs...)
}

// rulesOf parses the rules in force: the rules of a central store, or else of the file, or else the defaults. toRun is
// passed to [rules.Options].
func (f *file) rulesOf(toRun *rules.Remedies) (*rules.Set, error) {
	o := rules.Options{Secret: f.secret, ToRun: toRun}
	if f.stored != nil {
		return f.stored.parse(f.data, o)
	}
	if f.path == "" {
		if f.forwards {
			return rules.DefaultAdaptive(), nil
		}
		return rules.Default(), nil
	}
	o.Sections = programSections()
	return rules.ParseWith(f.path, f.data, o)
}
