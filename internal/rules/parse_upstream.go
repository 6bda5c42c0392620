package rules

import (
	"maps"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/upstream"
)

// upstream reads how an upstream reads a target: the name of a preset, or a mapping
// of a preset and traits that differ from it. Traits are meant in the order of the
// preset, wherever it stands in the mapping.
func (v value) upstream() upstream.Traits {
	if v.kind() != "a mapping" {
		return v.preset()
	}
	t := upstream.Traits{Known: true}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if v.node.Content[i].Value == "preset" {
			preset := v.at("preset")
			preset.node = v.node.Content[i+1]
			t = preset.preset()
		}
	}
	fs := fields{"preset": nil, "duplicates": func(v value) { d := v.duplicates(); t.Duplicates = &d }}
	maps.Copy(fs, pathFields(&t))
	maps.Copy(fs, queryFields(&t.Query))
	v.mapping(fs)
	return t
}

func (v value) preset() upstream.Traits {
	name := v.text()
	t, known := upstream.Preset(name)
	if !known && name != "" {
		names := append(upstream.Presets(), slices.Collect(maps.Keys(upstream.Aliases()))...)
		slices.Sort(names)
		v.fail("%q is no preset: one of %s; %q is safe for any upstream%s", cut(name), strings.Join(names, ", "),
			upstream.Strict, Suggest(name, names))
		return upstream.Traits{}
	}
	return t
}

// pathFields are the traits of paths.
func pathFields(t *upstream.Traits) fields {
	p := &t.Path
	yes := func(to *bool, no, word string) func(value) {
		return func(v value) { *to = v.word(no, word) == word }
	}
	return fields{
		"path_escapes":   yes(&p.Decode, "keep", "decode"),
		"path_case":      yes(&p.Fold, "keep", "fold"),
		"dot_segments":   yes(&p.DotSegments, "keep", "resolve"),
		"encoded_slash":  yes(&p.EncodedSlash, "keep", "slash"),
		"backslash":      yes(&p.Backslash, "keep", "slash"),
		"path_params":    yes(&p.PathParams, "keep", "drop"),
		"format_suffix":  yes(&p.Suffix, "keep", "drop"),
		"final_newline":  yes(&p.FinalNewline, "keep", "drop"),
		"fragment":       yes(&t.CutFragment, "malformed", "cut"),
		"trailing_slash": func(v value) { p.TrailingSlash = upstream.Slashes(v.wordOr("keep", "one", "all")) },
		"merge_slashes":  func(v value) { p.MergeSlashes = upstream.Merge(v.wordOr("none", "leading", "all")) },
		"authority": func(v value) {
			word := v.word("keep", "drop", "either")
			p.Authority, t.EitherAuthority = word == "drop", word == "either"
		},
	}
}

// queryFields are the traits of queries.
func queryFields(q *canon.Spelling) fields {
	return fields{
		"names": func(v value) {
			q.Names = canon.NameForm(v.wordOr("plain", "qs", "php", "rack", "spring", "nginx", "any"))
		},
		"semicolon": func(v value) {
			q.Semicolon = canon.Semicolon(v.wordOr("text", "separator", "drop", "either"))
		},
		"bad_escape":    func(v value) { q.BadEscape = canon.BadEscape(v.wordOr("keep", "drop", "malformed")) },
		"question_mark": func(v value) { q.Question = v.word("keep", "drop") == "drop" },
	}
}

// takeUpstream gives a rule what the file says of the upstream where it says nothing
// itself, and its parameters what the upstream makes of duplicates.
func (p *parser) takeUpstream(r *Rule) {
	if !r.Upstream.Known {
		r.Upstream = p.set.Upstream
	}
	if r.Upstream.Duplicates == nil {
		return
	}
	for _, i := range p.unsaid[r] {
		r.Params[i].Normal.Duplicates = *r.Upstream.Duplicates
	}
}

// wordOr reads one of a few words, the first of which means the zero value.
func (v value) wordOr(zero string, words ...string) string {
	word := v.word(append([]string{zero}, words...)...)
	if word == zero {
		return ""
	}
	return word
}

// integerForm reads a form of whole numbers; true is decimal.
func (v value) integerForm() canon.IntegerForm {
	if v.node.ShortTag() == "!!bool" {
		if v.boolean() {
			return canon.IntegerDecimal
		}
		return canon.IntegerNone
	}
	words := canon.IntegerForms()
	return canon.IntegerForm(max(0, slices.Index(words, v.word(words...))))
}
