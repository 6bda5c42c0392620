package rule

// ParseAs says how an upstream reads a request target: as a preset does, except for the traits that are set.
type ParseAs struct {
	// A server or framework, such as `django`; `strict` is safe for any.
	Preset string `name:"preset"`
	// Whether `/%74opic` is `/topic`.
	PathEscapes string `name:"path_escapes" words:"keep,decode"`
	// Whether `/Topic` is `/topic`.
	PathCase string `name:"path_case" words:"keep,fold"`
	// Which slashes at the end of a path are ignored.
	TrailingSlash string `name:"trailing_slash" words:"keep,one,all"`
	// Where several slashes are one.
	MergeSlashes string `name:"merge_slashes" words:"none,leading,all"`
	// Whether `/x/../topic` and `/./topic` are `/topic`, also with `%2e`.
	DotSegments string `name:"dot_segments" words:"keep,resolve"`
	// Whether `%2F` is a slash.
	EncodedSlash string `name:"encoded_slash" words:"keep,slash"`
	// Whether a backslash, also `%5C`, is a slash.
	Backslash string `name:"backslash" words:"keep,slash"`
	// Whether `;v=1` is dropped from a segment.
	PathParams string `name:"path_params" words:"keep,drop"`
	// Whether a format is dropped from the last segment, so that `/topic.json` is `/topic`.
	FormatSuffix string `name:"format_suffix" words:"keep,drop"`
	// Whether one `%0A` at the end is dropped.
	FinalNewline string `name:"final_newline" words:"keep,drop"`
	// Whether `//host` is dropped from `//host/topic`; `either`: both readings count.
	Authority string `name:"authority" words:"keep,drop,either"`
	// What a raw `#` in a target does: the target ends there, or is malformed.
	Fragment string `name:"fragment" words:"malformed,cut"`
	// Which spellings of a parameter's name are taken for it.
	Names string `name:"names" words:"plain,qs,php,rack,spring,nginx,any"`
	// What a raw `;` in a query is.
	Semicolon string `name:"semicolon" words:"text,separator,drop,either"`
	// How a pair with a `%` without two hex digits is handled.
	BadEscape string `name:"bad_escape" words:"keep,drop,malformed"`
	// Whether `?` at the beginning of a query is dropped.
	QuestionMark string `name:"question_mark" words:"keep,drop"`
	// What several values of one parameter make, where the parameter does not say it.
	Duplicates string `name:"duplicates" words:"all,first,last,each"`
}
