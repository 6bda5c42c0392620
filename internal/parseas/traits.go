package parseas

import (
	"slices"

	"github.com/hotparam/pipeline/internal/canon"
)

// Slashes selects the trailing slashes that an upstream ignores.
type Slashes string

// The ways to read trailing slashes.
const (
	SlashesKeep Slashes = ""    // /topic/ is another path than /topic
	SlashesOne  Slashes = "one" // a single one is ignored, two are not
	SlashesAll  Slashes = "all"
)

// Merge selects the runs of slashes that an upstream reads as one slash.
type Merge string

// The ways to read runs of slashes.
const (
	MergeNone    Merge = ""
	MergeLeading Merge = "leading" // at the beginning of the path
	MergeAll     Merge = "all"
)

// Path describes how an upstream reads a path. The zero value takes it byte for byte.
type Path struct {
	// Decode routes /%74opic as /topic.
	Decode bool
	// Fold routes /Topic as /topic: A-Z only.
	Fold bool
	// TrailingSlash selects the slashes at the end that are ignored.
	TrailingSlash Slashes
	// MergeSlashes selects the runs of slashes that are read as one slash.
	MergeSlashes Merge
	// DotSegments resolves /x/../topic and /./topic, also if a dot is %2e.
	DotSegments bool
	// EncodedSlash reads %2F as a slash.
	EncodedSlash bool
	// Backslash reads a backslash, also %5C, as a slash.
	Backslash bool
	// PathParams drops the text from a ";" up to the next slash.
	PathParams bool
	// Suffix drops a format from the last segment: /topic.json is /topic.
	Suffix bool
	// FinalNewline drops one %0A from the end.
	FinalNewline bool
	// Authority drops //host from //host/topic, with two slashes or more.
	Authority bool
	// EmptyWildcard matches the empty segment of /a/star/ with the {slug} of /a/{id}/{slug}.
	EmptyWildcard bool
}

// Traits hold all that is known of an upstream.
type Traits struct {
	// Preset is the name by which they were chosen, or "" if they were not chosen by a name.
	Preset string
	// Known is false if nothing is configured about the upstream.
	Known bool
	Path  Path
	// CutFragment ends the target at a raw "#". Without it such a target is malformed.
	CutFragment bool
	// EitherAuthority reads //host/topic in both ways, for upstreams that drop //host only sometimes or are not known.
	EitherAuthority bool
	// EitherSlash reads %2F in both ways.
	EitherSlash bool
	// EveryPath also reads a path as each preset does, as far as Path has its traits.
	EveryPath bool
	Query     canon.QuerySyntax
	// Duplicates, if set, applies to query parameters without a setting of their own.
	Duplicates *canon.Duplicates
}

// Readings returns the ways in which the upstream may read a path: Path first, and all of them with its Fold and
// EmptyWildcard, which concern the comparison and not the spelling. One reading that resolves everything is not enough:
// behind a server that resolves nothing, /articles/star/.. is an article with the slug "..".
func (t Traits) Readings() []Path {
	all := []Path{t.Path}
	add := func(p Path) {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	if t.EitherAuthority {
		p := t.Path
		p.Authority = true
		add(p)
	}
	if t.EitherSlash {
		for _, p := range slices.Clone(all) {
			p.EncodedSlash = true
			add(p)
		}
	}
	if t.Path.FinalNewline {
		for _, p := range slices.Clone(all) {
			p.FinalNewline = false // a segment that is only a newline is a value of a wildcard
			add(p)
		}
	}
	if t.EveryPath {
		widest := t.Path
		widest.Authority = widest.Authority || t.EitherAuthority
		widest.EncodedSlash = widest.EncodedSlash || t.EitherSlash
		for _, name := range Presets() {
			if name != Strict {
				for _, p := range presets[name].Readings() {
					add(p.limitedTo(widest))
				}
			}
		}
	}
	return all
}

// limitedTo drops the traits that w does not have.
func (p Path) limitedTo(w Path) Path {
	p.Decode, p.DotSegments = p.Decode && w.Decode, p.DotSegments && w.DotSegments
	p.EncodedSlash, p.Backslash = p.EncodedSlash && w.EncodedSlash, p.Backslash && w.Backslash
	p.PathParams, p.Suffix = p.PathParams && w.PathParams, p.Suffix && w.Suffix
	p.FinalNewline, p.Authority = p.FinalNewline && w.FinalNewline, p.Authority && w.Authority
	if w.TrailingSlash != SlashesAll && p.TrailingSlash != SlashesKeep {
		p.TrailingSlash = w.TrailingSlash
	}
	if w.MergeSlashes != MergeAll && p.MergeSlashes != MergeNone {
		p.MergeSlashes = w.MergeSlashes
	}
	p.Fold, p.EmptyWildcard = w.Fold, w.EmptyWildcard
	return p
}

// String names the traits for people: the preset, with ", changed" if other traits are set beside it, "custom" without
// a preset, and "none" if nothing is configured.
func (t Traits) String() string {
	switch preset, ok := Preset(t.Preset); {
	case !t.Known:
		return "none"
	case !ok:
		return "custom"
	case t != preset:
		return t.Preset + ", changed"
	}
	return t.Preset
}
