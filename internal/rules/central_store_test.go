package rules_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/rules"
)

var at = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// change makes a change that has to succeed.
func change(t *testing.T, s *rules.Stored, r rules.Revision) *rules.Stored {
	t.Helper()
	next, err := s.With(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func push(text string) rules.Revision { return rules.Revision{At: at, Text: text} }

// A store that lost its last changes does not give their numbers again.
func TestStored_VersionsOnlyGrow(t *testing.T) {
	t.Parallel()
	s := change(t, nil, push("a"))
	for known, want := range map[int64]int64{0: 2, 7: 8} {
		if next, err := s.With(push("b"), known); err != nil || next.Version != want || s.Version != 1 {
			t.Errorf("%+v on %+v, %v", next, s, err)
		}
	}
}

func TestStoredValuesOfOthersAreRejected(t *testing.T) {
	t.Parallel()
	good := change(t, nil, push("rules: []\n"))
	data, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rules.DecodeStored(data); err != nil || !cmp.Equal(got, good) {
		t.Fatalf("%v, %s", err, cmp.Diff(got, good))
	}
	for name, c := range map[string]struct{ data, want string }{
		"nothing":        {"", "not written by"},
		"YAML":           {"rules: []", "not written by"},
		"another's JSON": {`{"version": "x"}`, "not written by"},
		"an object":      {`{"version": 7}`, "not written by"},
		"a list":         {`[1]`, "not written by"},
		"cut in half":    {string(data[:len(data)/2]), "not written by"},
		"a newer program's": {strings.Replace(string(data), `"hotparam_rules":1`, `"hotparam_rules":2`, 1),
			"start a newer one"},
		"a text changed there": {strings.Replace(string(data), "rules: []", "rules: [1]", 1),
			"changed in the store"},
		"a text without a hash": {
			`{"hotparam_rules":1,"version":1,"text":"a"}`, "changed in the store"},
		"a format before the first": {strings.Replace(string(data), `"hotparam_rules":1`, `"hotparam_rules":0`, 1),
			"not written by"},
		"no revision": {`{"hotparam_rules":1}`, "version 0"},
		"100 MB":      {strings.Repeat("x", 100<<20), "more than"},
	} {
		if _, err := rules.DecodeStored([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A text may have as many bytes as docs/deploy says, and is read again, also if JSON escapes each byte with another
// one. A value is read up to its bound.
func TestStored_AcceptsTextsUpToTheBound(t *testing.T) {
	t.Parallel()
	const most = 384 << 10
	s := change(t, nil, push(strings.Repeat("\n", most)))
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rules.DecodeStored(data); err != nil || !cmp.Equal(got, s) {
		t.Errorf("a text of %d bytes: %v", most, err)
	}
	if _, err := s.With(push(strings.Repeat("x", most+1)), 0); err == nil || !strings.Contains(err.Error(), "393217 bytes, more than 393216") {
		t.Errorf("a text of %d bytes: %v", most+1, err)
	}
	full := append(data, bytes.Repeat([]byte(" "), rules.MaxStored-len(data))...)
	if _, err := rules.DecodeStored(full); err != nil {
		t.Errorf("%d bytes: %v", len(full), err)
	}
	if _, err := rules.DecodeStored(append(full, ' ')); err == nil {
		t.Errorf("%d bytes are read", len(full)+1)
	}
}
