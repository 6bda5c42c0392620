// Package rule has the rules of a pipeline as Go values: one struct for each concept of the rules file, for
// hotparam.NewRules. What is left zero has the default of the file. The tags of the fields state their names in YAML,
// their bounds and defaults; the file, Go values and the reference in docs/ are all made from them.
//
// The structs only hold what is written. Nothing is checked before NewRules.
package rule

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Set is a whole file of rules.
type Set struct {
	// The tenant. It keeps counts, hot keys, overrides and limits of several sites on one Redis apart.
	Namespace string `name:"namespace" form:"resource" default:"default"`
	// What is counted, in order: the first rule that matches a request counts it.
	Rules []Rule `name:"rules"`
	// Limits of every client, whatever it requests.
	IP IP `name:"ip"`
	// Groups of requests by header, crawlers first of all.
	Classes []Class `name:"classes"`
	// The upstreams that adaptive limits follow; those that are not named have the target `auto`.
	Upstreams []Upstream `name:"upstreams"`
	// Bounds of the work that one request can cause.
	QueryBounds QueryBounds `name:"query_bounds"`
	// Parameters whose values are redacted in every rule, by name.
	Redact Redactions `name:"redact"`
	// How the upstream reads a request target: the name of a preset, such as `express4` or `strict`, or a mapping of a
	// preset and traits. Without it other spellings evade the limit of a hot key.
	ParseAs ParseAs `name:"parse_as"`
}

// Rule says which requests are counted under which key, when a key is hot, and what limits it then.
type Rule struct {
	// The resource: the first part of every key of the rule, unique. `"*"`, once, is the catch-all, whose resource is
	// the request path: byte for byte, or as the upstream reads it where `parse_as` is set.
	Name string `name:"name" required:"true"`
	// Which requests; none: all.
	Match Match `name:"match"`
	// Which parameters make the key: names, or mappings of a name and its normalisation. `[]`: none, all requests of
	// the rule have one key.
	Params []Param `name:"params" required:"true"`
	// Globs over query names that are left out; only beside `"*"` in `params`. A name that `params` lists is tracked
	// all the same.
	Ignore []string `name:"ignore"`
	// How the upstream of this rule reads a target, if not as the file says.
	ParseAs ParseAs `name:"parse_as"`
	// `true`: later rules count the request too.
	Continue bool `name:"continue"`
	// When a key is hot.
	Hot Hot `name:"hot" required:"true"`
	// What limits a hot key. Without it the rule only detects.
	Limit *Limit `name:"limit"`
	// How hot keys are answered from the response cache, by the reverse proxy and by the Go middleware; none: they
	// are not.
	Cache *hottype.CachePolicy `name:"cache"`
	// How requests beyond the `query_bounds` are handled.
	Malformed MalformedPolicy `name:"malformed" words:"limit,deny,allow" default:"limit"`
}

// MalformedPolicy says how malformed requests are handled, hot or not. Overrides come before it.
type MalformedPolicy string

// The policies for malformed requests.
const (
	MalformedLimit MalformedPolicy = "limit" // the rule's limit, in a bucket of their own
	MalformedDeny  MalformedPolicy = "deny"
	MalformedAllow MalformedPolicy = "allow" // only counted
)

// Match selects requests. Empty fields match everything.
type Match struct {
	// A path pattern in the syntax of Go's `net/http.ServeMux`: `/topic`, `/topics/{id}`, `/files/{rest...}`, `/files/`
	// (everything below), `/files/{$}` (only that); none: every path.
	Path string `name:"path"`
	// In upper case; none: every method. `GET` takes `HEAD` too.
	Methods []string `name:"methods" form:"method"`
	// Compared without port and case; none: every host.
	Hosts []string `name:"hosts" form:"host"`
}

// Param is one tracked parameter and the normalisation of its values.
type Param struct {
	// A name of the query, `path.id` for the wildcard `{id}` of the path pattern, `header.X-Name`, or `"*"` for every
	// query parameter. A name of the query that has a dot is written with `query.` before it.
	Name string `name:"name" required:"true"`
	// `true`: `A-Z` in values become lower case.
	Fold bool `name:"fold"`
	// `true`: white space at both ends is dropped: that of Unicode, and the byte order mark.
	Trim bool `name:"trim"`
	// Whole numbers in their shortest form, as the application reads them, so `042` and `+42` are `42`; other values
	// stay. `true` is `decimal`.
	Integer string `name:"integer" words:"none,decimal,go,js,js_number,php,python,ruby,java,spring" true:"decimal" default:"none"`
	// What several values make: `each`: a key for each distinct value; `first`, `last`: one key, of that value as they
	// are in the query; `all`: one key, of all values. Query parameters only. Default: that of `parse_as`, else `each`,
	// and `all` for `"*"`.
	Duplicates string `name:"duplicates" words:"all,first,last,each"`
	// What keys have in place of the value. Default: what the top of the file says.
	Redact string `name:"redact" words:"hash,mask,drop"`
}

// Params are parameters by name, with the default normalisation.
func Params(names ...string) []Param {
	all := []Param{}
	for _, n := range names {
		all = append(all, Param{Name: n})
	}
	return all
}

// Hot says when a key is hot: when any of Rate, Share and Surge says so, of which at least one is set.
type Hot struct {
	// A key is hot when its count over the window reaches `rate` x `window`: requests per second.
	Rate float64 `name:"rate" as:"rate"`
	// A key is hot when it has that part of all requests of its resource in the window.
	Share float64 `name:"share" in:"0..1"`
	// A key is hot when it has so many times as many requests as it used to have.
	Surge float64 `name:"surge" in:"1..1000000"`
	// What a key must have at least to be hot by `share` or `surge`, as a rate over the window; required with them.
	MinRate float64 `name:"min_rate" as:"rate"`
	// Short windows react sooner, long ones forgive peaks.
	Window time.Duration `name:"window" in:"1s..10m" step:"1s" default:"5s"`
	// How long a key has to stay below the release threshold before it is cold again.
	Cooldown time.Duration `name:"cooldown" in:"0s..1h" step:"1ms" default:"10s"`
	// The release threshold as a part of each threshold. Below 1 a key near its threshold does not flap.
	ReleaseRatio float64 `name:"release_ratio" in:"0..1" default:"0.7"`
	// At most so many keys of the rule are hot at once, the heaviest. A key takes the place of another when it is
	// heavier by a tenth. `0`: no cap but 10,000.
	MaxHot int `name:"max_hot" in:"0..1000000" default:"1000"`
	// How many requests a second the rule is expected to get, all keys together. With it, counters that could not find
	// every hot key are refused at the start and at a reload. Default: `detect.max_rate`.
	MaxRate float64 `name:"max_rate" as:"rate"`
	// Hot only if the key reaches its threshold although no client (IPv4 address or IPv6 /64) counts for more than the
	// threshold / `min_clients`: that takes at least so many clients, and a client in a loop is left to its per-IP
	// windows. `0`: any number.
	MinClients int `name:"min_clients" in:"0..32"`
}

// QueryBounds bound the work that one request can cause and the keys it can make.
type QueryBounds struct {
	// Pairs of a query, tracked or not.
	Pairs int `name:"pairs" in:"1..1048576" default:"256"`
	// A tracked name, decoded.
	NameBytes int `name:"name_bytes" in:"1..1048576" default:"64"`
	// A tracked value, decoded.
	ValueBytes int `name:"value_bytes" in:"1..1048576" default:"256"`
	// The raw query, and a path that is used as a resource. A longer query is not scanned.
	QueryBytes int `name:"query_bytes" in:"1..1048576" default:"8192"`
}

// Redaction is the name of a parameter and what keys have in place of its value: hash, mask or drop.
type Redaction struct{ Name, Redact string }

// Redactions are redacted in every rule, in their order.
type Redactions []Redaction

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
	// Whether `%2F` is a slash; `either`: both readings count.
	EncodedSlash string `name:"encoded_slash" words:"keep,slash,either"`
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
	// Whether an empty segment is a value of a path wildcard, so that `/a/star/` is an `/a/{id}/{slug}`.
	EmptyWildcard string `name:"empty_wildcard" words:"refuse,match"`
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
