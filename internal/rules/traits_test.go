package rules

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/parseas"
)

// traitFields are the fields of parse_as, their words, and the words of the traits.
var traitFields = []struct {
	name  string
	words []string
	read  func(parseas.Traits) string
}{
	{"path_escapes", []string{"keep", "decode"}, func(t parseas.Traits) string { return yes(t.Path.Decode, "decode", "keep") }},
	{"path_case", []string{"keep", "fold"}, func(t parseas.Traits) string { return yes(t.Path.Fold, "fold", "keep") }},
	{"trailing_slash", []string{"keep", "one", "all"}, func(t parseas.Traits) string {
		return cmp.Or(string(t.Path.TrailingSlash), "keep")
	}},
	{"merge_slashes", []string{"none", "leading", "all"}, func(t parseas.Traits) string {
		return cmp.Or(string(t.Path.MergeSlashes), "none")
	}},
	{"dot_segments", []string{"keep", "resolve"}, func(t parseas.Traits) string {
		return yes(t.Path.DotSegments, "resolve", "keep")
	}},
	{"encoded_slash", []string{"keep", "slash", "either"}, func(t parseas.Traits) string {
		return yes(t.EitherSlash, "either", yes(t.Path.EncodedSlash, "slash", "keep"))
	}},
	{"backslash", []string{"keep", "slash"}, func(t parseas.Traits) string { return yes(t.Path.Backslash, "slash", "keep") }},
	{"path_params", []string{"keep", "drop"}, func(t parseas.Traits) string { return yes(t.Path.PathParams, "drop", "keep") }},
	{"format_suffix", []string{"keep", "drop"}, func(t parseas.Traits) string { return yes(t.Path.Suffix, "drop", "keep") }},
	{"final_newline", []string{"keep", "drop"}, func(t parseas.Traits) string {
		return yes(t.Path.FinalNewline, "drop", "keep")
	}},
	{"authority", []string{"keep", "drop", "either"}, func(t parseas.Traits) string {
		return yes(t.EitherAuthority, "either", yes(t.Path.Authority, "drop", "keep"))
	}},
	{"empty_wildcard", []string{"refuse", "match"}, func(t parseas.Traits) string {
		return yes(t.Path.EmptyWildcard, "match", "refuse")
	}},
	{"fragment", []string{"malformed", "cut"}, func(t parseas.Traits) string { return yes(t.CutFragment, "cut", "malformed") }},
	{"names", []string{"plain", "qs", "php", "rack", "spring", "nginx", "any"}, func(t parseas.Traits) string {
		return cmp.Or(string(t.Query.Names), "plain")
	}},
	{"semicolon", []string{"text", "separator", "drop", "either"}, func(t parseas.Traits) string {
		return cmp.Or(string(t.Query.Semicolon), "text")
	}},
	{"bad_escape", []string{"keep", "drop", "malformed"}, func(t parseas.Traits) string {
		return cmp.Or(string(t.Query.BadEscape), "keep")
	}},
	{"question_mark", []string{"keep", "drop"}, func(t parseas.Traits) string { return yes(t.Query.Question, "drop", "keep") }},
	{"duplicates", duplicateWords, func(t parseas.Traits) string {
		if t.Duplicates == nil {
			return ""
		}
		return duplicateWords[*t.Duplicates]
	}},
}

func yes(is bool, then, otherwise string) string {
	if is {
		return then
	}
	return otherwise
}

// A field of parse_as sets its trait to its word, and no other trait, for any preset.
func TestParse_ReadsEachTrait(t *testing.T) {
	t.Parallel()
	traits := func(preset, field, word string) parseas.Traits {
		text := "parse_as: {preset: " + preset
		if field != "" {
			text += ", " + field + ": " + word
		}
		return mustParse(t, text+"}\nrules: [{name: r, params: [id], hot: {rate: 1}}]").Rules[0].ParseAs
	}
	for _, preset := range parseas.Names() {
		base := traits(preset, "", "")
		for _, f := range traitFields {
			for _, word := range f.words {
				got := traits(preset, f.name, word)
				for _, other := range traitFields {
					want := other.read(base)
					if other.name == f.name {
						want = word
					}
					if is := other.read(got); is != want {
						t.Errorf("{preset: %s, %s: %s}: %s is %q, want %q", preset, f.name, word, other.name, is, want)
					}
				}
			}
		}
	}
}

// A name of exactly the maximum length is accepted.
func TestParse_AcceptsTheLongestName(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 64)
	set := mustParse(t, "rules: [{name: r, params: ["+name+"], hot: {rate: 1}}]")
	if !slices.ContainsFunc(set.Rules[0].Params, func(p Param) bool { return p.Name == name }) {
		t.Errorf("%+v", set.Rules[0].Params)
	}
}

// A catch-all has limits of paths.
func TestParse_AcceptsValuesOfPaths(t *testing.T) {
	t.Parallel()
	set := mustParse(t, `rules: [{name: "*", params: ["*"], hot: {rate: 1}, limit: {rate: 1, values: [{key: "/news?id=1", rate: 2}]}}]`)
	if v := set.Rules[0].Values; len(v) != 1 || v[0].Key != "/news?id=1" {
		t.Errorf("%+v", v)
	}
}

// A fold of case reaches both ends of the alphabet.
func TestMatch_FoldsAllLetters(t *testing.T) {
	t.Parallel()
	set := mustParse(t, "parse_as: {path_case: fold}\nrules: [{name: r, match: {path: /az}, params: [id], hot: {rate: 1}}]")
	for path, want := range map[string]string{"/AZ": "r r?id=1", "/aZ": "r r?id=1", "/Az": "r r?id=1", "/@[": "", "/a[": ""} {
		if got := keys(set, hottype.Request{Target: path + "?id=1"}); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
