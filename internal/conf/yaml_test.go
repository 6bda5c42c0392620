package conf

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func readYAML(s *Schema, text string) (server, error) {
	var got server
	node, err := Document("f.yaml", []byte(text))
	if err != nil {
		return got, err
	}
	v := s.Decode("f.yaml", node, &got)
	v.Settle(&got)
	return got, v.Err()
}

func TestDecode_ReadsYAML(t *testing.T) {
	t.Parallel()
	got, err := readYAML(new(Schema), "# ours\nname: a\nstrict: yes\nshare: 1\nservers:\n- {name: b, wait: 7s}\n- name: c\n")
	if err == nil || !strings.Contains(err.Error(), "f.yaml:3: strict: must be true or false") {
		t.Errorf("yes is no bool: %v", err)
	}
	if got.Name != "a" || got.Share != 1 || got.Wait != 5*time.Second || len(got.Servers) != 2 ||
		got.Servers[0].Wait != 7*time.Second || got.Servers[1].Wait != 5*time.Second {
		t.Errorf("%+v", got)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "null\n"} {
		if _, err := readYAML(new(Schema), empty); err == nil || err.Error() != "f.yaml: name: is missing" {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

// One mistake has one error, with the line and the path of the field that is wrong.
func TestDecode_ErrorsHaveLineAndPath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: a\nservers:\n- name: b\n  copies: 0": "f.yaml:4: servers[0].copies: 0 is not a whole number between 1 and 9",
		"name: a\nservers:\n- {}":                   "f.yaml:3: servers[0].name: is missing",
		"name: a\nservers: {name: b}":               "f.yaml:2: servers: must be a list, not a mapping",
		"name: a\nservers: [b]":                     `f.yaml:2: servers[0]: must be a mapping of fields, not "b"`,
		"name: 7":                                   `f.yaml:1: name: must be a string (quote it), not "7"`,
		"name: [a]":                                 "f.yaml:1: name: must be a string (quote it), not a list",
		"name: ''":                                  "f.yaml:1: name: is empty or has control characters",
		"name: a\nwait: 5":                          `f.yaml:2: wait: "5" is not a time such as 500ms, 5s or 1m`,
		"name: a\nwait: 90s":                        "f.yaml:2: wait: 90s is not between 1s and 1m0s in steps of 1s",
		"name: a\nshare: 1.1":                       "f.yaml:2: share: 1.1 is not above 0 and at most 1",
		"name: a\nshare: .nan":                      "f.yaml:2: share: .nan is not above 0 and at most 1",
		"name: a\nmode: offf":                       `f.yaml:2: mode: "offf" is not one of on, off; did you mean "off"?`,
		"- a":                                       "f.yaml:1: must be a mapping of fields, not a list",
		// Unknown fields and duplicates.
		"name: a\nstrcit: true":       `f.yaml:2: strcit: unknown field; did you mean "strict"?`,
		"name: a\ntotally: different": "f.yaml:2: totally: unknown field",
		"name: a\n[1]: b":             "f.yaml:2: unknown field",
		"name: a\nname: b":            "f.yaml:2: name: is set twice, first in line 1",
		// YAML that is not supported, or not YAML.
		"name: &n a":                            "f.yaml:1: name: anchors and aliases are not supported; write the value out",
		"name: a\nservers: &s\n- name: b":       "f.yaml:2: servers: anchors and aliases are not supported; write the value out",
		"name: a\n---\nname: b":                 "f.yaml:2: has a second document",
		"name: a\nmode: [on":                    "f.yaml:2: not YAML: did not find expected ',' or ']'",
		"name: a\n<<: {mode: on}":               "f.yaml:2: <<: unknown field",
		strings.Repeat("#", MaxFile) + "\na: b": fmt.Sprintf("f.yaml: has %d bytes, more than %d", MaxFile+5, MaxFile),
	} {
		if _, err := readYAML(new(Schema), text); err == nil || err.Error() != want {
			t.Errorf("%.40q:\nhas  %v\nwant %s", text, err, want)
		}
	}
}

func TestErr_SortsErrorsByLine(t *testing.T) {
	t.Parallel()
	_, err := readYAML(new(Schema), "servers:\n- copies: 10\n- {nam: b}\nmode: up\n")
	const want = `f.yaml:1: name: is missing
f.yaml:2: servers[0].name: is missing
f.yaml:2: servers[0].copies: 10 is not a whole number between 1 and 9
f.yaml:3: servers[1].name: is missing
f.yaml:3: servers[1].nam: unknown field; did you mean "name"?
f.yaml:4: mode: "up" is not one of on, off`
	if err == nil || err.Error() != want {
		t.Errorf("has\n%v\nwant\n%s", err, want)
	}
	var many strings.Builder
	for i := range 10 + 3 {
		fmt.Fprintf(&many, "field-%d-of-none: 1\n", i)
	}
	if _, err = readYAML(new(Schema), "name: a\n"+many.String()); err == nil ||
		!strings.HasSuffix(err.Error(), "\nf.yaml: and 3 more") {
		t.Error(err)
	}
	var one *Error
	if !errors.As(err, &one) || one.Line != 2 || one.Field != "field-0-of-none" {
		t.Errorf("%+v", one)
	}
}

// No message of a secret schema has a value.
func TestSchema_HidesSecretValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"s3cret", "name: a\nwait: s3cret", "name: a\nwait: 99h", "name: a\nmode: s3cret",
		"name: a\ncopies: s3cret", "name: a\nshare: s3cret", "name: a\nstrict: s3cret", "name: a\nservers: [s3cret]",
		"name: a\nservers: s3cret"} {
		_, err := readYAML(&Schema{Secret: true}, text)
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "99h") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
