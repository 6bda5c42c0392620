package parseas

import "github.com/hotparam/pipeline/internal/canon"

// Slashes says which trailing slashes an upstream ignores.
type Slashes string

// The ways to read trailing slashes.
const (
	SlashesKeep Slashes = ""    // /topic/ is another path than /topic
	SlashesOne  Slashes = "one" // one is ignored, two are not
	SlashesAll  Slashes = "all"
)

// Merge says which runs of slashes an upstream reads as one.
type Merge string

// The ways to read runs of slashes.
const (
	MergeNone    Merge = ""
	MergeLeading Merge = "leading" // at the beginning of the path
	MergeAll     Merge = "all"
)

// Path says how an upstream reads a path. The zero value takes it byte for byte.
type Path struct {
	// Decode routes /%74opic as /topic.
	Decode bool
	// Fold routes /Topic as /topic: A-Z only.
	Fold bool
	// TrailingSlash are slashes at the end that do not matter.
	TrailingSlash Slashes
	// MergeSlashes are runs of slashes that are one.
	MergeSlashes Merge
	// DotSegments resolves /x/../topic and /./topic, also where a dot is %2e.
	DotSegments bool
	// EncodedSlash takes %2F for a slash.
	EncodedSlash bool
	// Backslash takes a backslash, also %5C, for a slash.
	Backslash bool
	// PathParams drops what a ";" begins, up to the next slash.
	PathParams bool
	// Suffix drops a format from the last segment: /topic.json is /topic.
	Suffix bool
	// FinalNewline drops one %0A from the end.
	FinalNewline bool
	// Authority drops //host from //host/topic.
	Authority bool
}

// Traits are all that is known of an upstream.
type Traits struct {
	// Preset is the name they were chosen by, "" for none.
	Preset string
	// Known is false where nothing is configured about the upstream.
	Known bool
	Path  Path
	// CutFragment ends the target at a raw "#". Else such a target is malformed.
	CutFragment bool
	// EitherAuthority reads //host/topic in both ways. Only where the upstream is
	// not known.
	EitherAuthority bool
	Query           canon.QuerySyntax
	// Duplicates, if set, holds for query parameters that say nothing themselves.
	Duplicates *canon.Duplicates
}

// String names the traits for people: the preset, whether something else was said
// beside it, "custom" without one, and "none" where nothing is configured.
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
