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
	next, err := s.With(&r, 0)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func push(text string) rules.Revision {
	return rules.Revision{Action: rules.RevisionPush, At: at, Text: text}
}

func TestTrialIsForOneLimiterAndEndsByItself(t *testing.T) {
	t.Parallel()
	first := change(t, nil, push("a"))
	trial := change(t, first, rules.Revision{Action: rules.RevisionTry, At: at, Text: "b", Only: "one",
		Until: at.Add(time.Minute)})
	for _, c := range []struct {
		stored   *rules.Stored
		instance string
		after    time.Duration
		want     int64
	}{
		{first, "one", 0, 1},
		{trial, "one", 0, 2},
		{trial, "other", 0, 1},
		{trial, "", 0, 1},
		{trial, "one", time.Minute - 1, 2},
		{trial, "one", time.Minute, 1},
		{change(t, trial, rules.Revision{Action: rules.RevisionEnd, At: at}), "one", 0, 1},
		{change(t, trial, push("c")), "one", 0, 3},
	} {
		if got := c.stored.For(c.instance, at.Add(c.after)).Version; got != c.want {
			t.Errorf("%q after %v runs %d, want %d", c.instance, c.after, got, c.want)
		}
	}
	if first.Trial != nil || first.Version != 1 {
		t.Error("a change changed what it was made on")
	}
}

// A store that lost its last changes does not give their numbers again.
func TestVersionsOnlyGrow(t *testing.T) {
	t.Parallel()
	s := change(t, nil, push("a"))
	r := push("b")
	next, err := s.With(&r, 7)
	if err != nil || next.Version != 8 || next.Current.Version != 8 || r.Version != 8 {
		t.Errorf("%+v, %v", next, err)
	}
	if next.Last().Version != 8 {
		t.Errorf("the last change is %d", next.Last().Version)
	}
}

func TestNothingCanBeTriedBesideNothing(t *testing.T) {
	t.Parallel()
	for _, action := range []string{rules.RevisionTry, rules.RevisionEnd} {
		if _, err := (*rules.Stored)(nil).With(&rules.Revision{Action: action, Text: "a", Only: "one", Until: at},
			0); err == nil {
			t.Errorf("%s: no error", action)
		}
	}
}

func TestStoredValuesOfOthersAreRejected(t *testing.T) {
	t.Parallel()
	good := change(t, change(t, nil, push("rules: []\n")),
		rules.Revision{Action: rules.RevisionTry, At: at, Text: "b", Only: "one", Until: at})
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
		"another's JSON": {`{"version": 7, "current": "x"}`, "not written by"},
		"an object":      {`{"version": 7}`, "not written by"},
		"a list":         {`[1]`, "not written by"},
		"cut in half":    {string(data[:len(data)/2]), "not written by"},
		"a newer program's": {strings.Replace(string(data), `"hotparam_rules":1`, `"hotparam_rules":2`, 1),
			"start a newer one"},
		"a text changed there": {strings.Replace(string(data), "rules: []", "rules: [1]", 1),
			"changed in the store"},
		"a text without a hash": {
			`{"hotparam_rules":1,"version":1,"current":{"version":1,"action":"push","text":"a"}}`,
			"changed in the store"},
		"a revision to come": {strings.Replace(string(data), `"version":2,"current"`, `"version":1,"current"`, 1),
			"revision 2"},
		"a format before the first": {strings.Replace(string(data), `"hotparam_rules":1`, `"hotparam_rules":0`, 1),
			"not written by"},
		"no revision":             {`{"hotparam_rules":1,"version":1}`, "revision 0"},
		"a trial without limiter": {strings.Replace(string(data), `"only":"one",`, "", 1), "names no limiter"},
		"100 MB":                  {strings.Repeat("x", 100<<20), "more than"},
	} {
		if _, err := rules.DecodeStored([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A text may have as many bytes as docs/deploy says, and two of that length are read again, also if JSON escapes
// each byte with another one. A value is read up to its bound.
func TestTextsUpToTheBound(t *testing.T) {
	t.Parallel()
	const most = 384 << 10
	s := change(t, nil, push(strings.Repeat("\n", most)))
	s = change(t, s, rules.Revision{Action: rules.RevisionTry, At: at, Text: strings.Repeat("\"", most), Only: "one",
		Until: at})
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rules.DecodeStored(data); err != nil || !cmp.Equal(got, s) {
		t.Errorf("two texts of %d bytes: %v", most, err)
	}
	long := push(strings.Repeat("x", most+1))
	if _, err := s.With(&long, 0); err == nil || !strings.Contains(err.Error(), "393217 bytes, more than 393216") {
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
