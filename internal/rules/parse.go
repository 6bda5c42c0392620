// Package rules defines which requests are counted under which key, when a key is hot, and which limit then applies to
// it.
//
// [Parse] reads the YAML of docs/rules.md strictly and returns an immutable [Set], or an error with file, line and
// field. [Set.Match] turns a request into its keys. [Overrides] indexes the overrides of operators by precedence.
//
// The package is pure: it reads no file, no clock and no environment. A Set may be shared by any number of goroutines.
package rules

import (
	"bytes"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
)

// Error is an error in one field of the rules, and Errors holds all errors of a file.
type (
	Error  = rule.Error
	Errors = rule.Errors
)

// ProgramSections are the top-level names of a configuration file that hold settings of the programs. A test of package
// config checks that the list is complete.
var ProgramSections = []string{
	"accesslog", "admin", "aggregator", "answer", "carbon", "check", "collector", "decide", "denials", "detect", "edge",
	"envoy", "etcd", "gate", "graphite", "history", "kafka",
	"log", "mirror", "names", "notifications", "privacy", "proxy", "redis", "sidecar", "spoe", "state", "statsd",
	"stop", "tally",
}

// DefaultNamespace is the namespace of a file without a namespace.
const DefaultNamespace = "default"

// Parse reads the rules from YAML. sections are further top-level keys, which Parse ignores. The error is [Errors]. A
// document without rules is a set without rules.
func Parse(file string, data []byte, sections ...string) (*Set, error) {
	return ParseWith(file, data, Options{Sections: sections})
}

// Options are the inputs of a set that are not in a file of rules.
type Options struct {
	Sections []string // top-level keys to ignore
	// Secret is the key of the hashes of redacted values, the same in all processes of a namespace. Without it values
	// are masked; see [Set.LacksSecret].
	Secret []byte
	// ToRun, if not nil, rejects a set that must not judge requests: a set without rules, or a set that hashes values
	// without a Secret.
	ToRun *Remedies

	isEmpty bool // the file is empty
}

// Remedies holds the ends of the errors about missing rules and a missing secret: how the caller gets the default
// rules, and how it passes the secret. Without a remedy a set may lack either.
type Remedies struct{ Rules, Secret string }

// ParseWith reads the rules as Parse does, with options.
func ParseWith(file string, data []byte, o Options) (*Set, error) {
	root, err := conf.Document(file, data)
	if err != nil {
		return nil, err
	}
	d := new(rule.Set)
	o.isEmpty = len(bytes.TrimSpace(data)) == 0
	return compile(schema.Decode(file, root, d, o.Sections...), d, file, o)
}

// FromGo returns a set made from Go values. They are checked like a file with the same fields, and errors name the Go
// fields: "Rules[0].Hot.Rate".
func FromGo(name string, set *rule.Set, o Options) (*Set, error) {
	v, d := conf.FromGo(schema, name, set)
	return compile(v, d, name, o)
}

func compile(v conf.Value, d *rule.Set, file string, o Options) (*Set, error) {
	p := parser{set: &Set{secret: o.Secret}}
	v.Settle(d)
	p.compileSet(v, d)
	if err := v.Err(); err != nil {
		return nil, err
	}
	p.set.Hash = rulesHash(d)
	err := p.set.compile()
	if err == nil {
		err = p.set.redactOwn()
	}
	if err != nil {
		return nil, Errors{{File: file, Message: err.Error()}}
	}
	p.warnOfLogin()
	p.set.Warnings = v.Warnings()
	if err := p.set.checkToRun(file, o); err != nil {
		return nil, Errors{err}
	}
	if p.set.LacksSecret() {
		p.set.Warnings = append(p.set.Warnings, file+
			": redact: values must be hashed, but there is no secret: they are masked, "+
			"all values as one; give a secret (privacy.secret_file)")
	}
	return p.set, nil
}

// checkToRun returns an error for a set without rules, because nothing would be counted or limited in silence, and for
// a set that hashes values without a secret, because all values would be the same.
func (s *Set) checkToRun(file string, o Options) *Error {
	switch {
	case o.ToRun == nil:
		return nil
	case len(s.Rules) == 0 && o.ToRun.Rules != "":
		what := "has no rules"
		if o.isEmpty {
			what = "is empty"
		}
		return &Error{File: file, Message: what + ": nothing would be counted or limited; write at least one rule, such as " +
			"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}], or " +
			o.ToRun.Rules + " for the default rules"}
	case s.LacksSecret() && o.ToRun.Secret != "":
		return &Error{File: file, Field: "redact", Message: "values must be hashed, but there is no key for the hashes; " +
			o.ToRun.Secret}
	}
	return nil
}
