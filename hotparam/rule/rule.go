// Package rule holds the rules of a pipeline as Go values for hotparam.NewRules: one struct for each concept of the
// rules file. A zero field has the default of the file. The tags of the fields state their names in YAML, their bounds
// and defaults; the parser of the file, the checks of Go values and the reference in docs/ follow them.
//
// The structs hold the values as written. Only NewRules checks them.
package rule

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Set is a whole file of rules.
type Set struct {
	// The tenant, a name. Sites with different namespaces share a Redis without sharing counts, hot keys, overrides or
	// limits.
	Namespace string `name:"namespace" form:"resource" default:"default"`
	// The rules, in order: the first one that matches a request counts it.
	Rules []Rule `name:"rules"`
	// Windows for every client, over all its requests.
	IP IP `name:"ip"`
	// Groups of requests, such as crawlers or members.
	Classes []Class `name:"classes"`
	// The upstreams that adaptive limits follow. Default: `default`, with the target `auto`.
	Upstreams []Upstream `name:"upstreams"`
	// Bounds of the work that one request can cause.
	QueryBounds QueryBounds `name:"query_bounds"`
	// Parameters whose values must stay hidden, in every rule.
	Redact Redactions `name:"redact"`
	// How the upstream reads a request target: the name of a preset (`express4`, `django`, `rails`, … or `strict`), or
	// a mapping of a preset and traits. Without it other spellings of a request evade its limit: docs/evasion.md.
	ParseAs ParseAs `name:"parse_as"`
	// Exceptions for particular keys, clients and networks.
	Overrides []Override `name:"overrides"`
}

// Rule selects requests, forms their keys, limits each client, and defines when a key is hot and how it is then
// limited.
type Rule struct {
	// The resource: the first part of every key of the rule, unique. `"*"`, once, is the catch-all. Its resource is
	// the request path: byte for byte, or as `parse_as` reads it; `/*` for `OPTIONS *`.
	Name string `name:"name" required:"true"`
	// The requests that the rule counts. Default: all.
	Match Match `name:"match"`
	// The parameters that form the key. With `[]` all requests of the rule have one key. Required without `per_client`,
	// with it `[]` by default.
	Params []Param `name:"params"`
	// Globs over query names that are left out; only with `"*"` in `params`. A name in `params` is tracked even so.
	Ignore []string `name:"ignore"`
	// As at the top of the file, for the upstream of this rule. Default: the file's.
	ParseAs ParseAs `name:"parse_as"`
	// `true`: later rules count the request too.
	Continue bool `name:"continue"`
	// The number for which a request counts in `hot`: `requests`: one; `time`: the time until its response begins;
	// `bytes`: the bytes of the body; `response.NAME`: the number in that field of the response, such as
	// `response.X-Cost`. Rates are written in that unit: `500ms` or `1s` of time a second, `5MB` a second, a plain
	// number; docs/detection.md#hot-by-cost.
	Cost hottype.Cost `name:"cost" default:"requests"`
	// With `cost: response.NAME`: `true`: clients get that field too.
	ShowCost bool `name:"show_cost"`
	// The conditions under which a key is hot. Required without `per_client`; with it and without `hot` no key of the
	// rule is hot.
	Hot Hot `name:"hot"`
	// The windows of each client for the requests of the rule, hot or not: `fixed`, `sliding` or both. Default: none.
	PerClient *PerClient `name:"per_client"`
	// The limit of a hot key. Without it the rule only detects.
	Limit *Limit `name:"limit"`
	// Hot keys are answered from the response cache, by the reverse proxy and by the Go middleware. Default: off.
	Cache *hottype.CachePolicy `name:"cache"`
	// The treatment of requests beyond the `query_bounds`.
	Malformed MalformedPolicy `name:"malformed" words:"limit,deny,allow" default:"limit"`
}

// MalformedPolicy selects the treatment of malformed requests, hot or not. Overrides take precedence.
type MalformedPolicy string

// The policies for malformed requests.
const (
	MalformedLimit MalformedPolicy = "limit" // the rule's limit, in a bucket of their own
	MalformedDeny  MalformedPolicy = "deny"
	MalformedAllow MalformedPolicy = "allow" // only counted
)

// Match selects requests. Empty fields match everything.
type Match struct {
	// A path pattern in the syntax of Go's `net/http.ServeMux`: `/topic`, `/topics/{id}`, `/files/{rest...}`,
	// `/files/` (everything below), `/files/{$}` (only that). Default: every path.
	Path string `name:"path"`
	// Methods in upper case, compared without case. `GET` includes `HEAD`. Default: every method.
	Methods []string `name:"methods" form:"method"`
	// Hosts, compared without port, final dots and case. Default: every host.
	Hosts []string `name:"hosts" form:"host"`
}

// Param is one tracked parameter and the normalisation of its values.
type Param struct {
	// A name of the query, `path.id` for the wildcard `{id}` of the path pattern, `header.X-Name`, or `"*"` for every
	// query parameter. A name of the query that has a dot is written with `query.` before it.
	Name string `name:"name" required:"true"`
	// `true`: `A-Z` in values become lower case.
	Fold bool `name:"fold"`
	// `true`: Unicode white space and the byte order mark are dropped at both ends.
	Trim bool `name:"trim"`
	// Numbers have one form in keys, as the application reads them: `042` and `+42` are `42`. Other values stay.
	// `decimal` or `true`, `go`, `js`, `js_number`, `php`, `python`, `ruby`, `java`, `spring`:
	// docs/evasion.md#what-only-the-application-knows.
	Integer string `name:"integer" words:"none,decimal,go,js,js_number,php,python,ruby,java,spring" true:"decimal" default:"none"`
	// Keys of a parameter with several values: `each`: one key per distinct value; `first`, `last`: one key, of the
	// first or last value in the query; `all`: one key of all values. Query parameters only. Default: `each`; of `"*"`:
	// `all`.
	Duplicates string `name:"duplicates" words:"all,first,last,each"`
	// `hash`, `mask` or `drop`: the replacement of the value in the key, see `redact`. Default: the file's `redact`.
	Redact string `name:"redact" words:"hash,mask,drop"`
}

// Params returns parameters by name, with the default normalisation.
func Params(names ...string) []Param {
	all := []Param{}
	for _, n := range names {
		all = append(all, Param{Name: n})
	}
	return all
}

// Hot defines when a key is hot: when it meets any of Rate, Share and Surge. At least one of them is set.
type Hot struct {
	// A key is hot when its count over the window reaches `rate` x `window`. One of `rate`, `share`, `surge` is
	// required.
	Rate float64 `name:"rate" as:"cost rate"`
	// A key is hot when it has this share of all requests of its resource in the window, above 0 and at most 1.
	// Default: off.
	Share float64 `name:"share" in:"0..1"`
	// A key is hot when its rate is this many times its past rate, above 1. Default: off.
	Surge float64 `name:"surge" in:"1..1000000"`
	// The minimum rate over the window at which `share` or `surge` makes a key hot. Required with them.
	MinRate float64 `name:"min_rate" as:"cost rate"`
	// Whole seconds, `1s` to `10m`. Short windows react sooner, long ones ignore peaks.
	Window time.Duration `name:"window" in:"1s..10m" step:"1s" default:"5s"`
	// Time for which a key must stay below the release threshold before it is cold, up to `1h`.
	Cooldown time.Duration `name:"cooldown" in:"0s..1h" step:"1ms" default:"10s"`
	// The release threshold as a part of each threshold, above 0 and at most 1.
	ReleaseRatio float64 `name:"release_ratio" in:"0..1" default:"0.7"`
	// The maximum number of hot keys of the rule; the heaviest are hot. A key replaces another if it is heavier by a
	// tenth. `0`: 10,000.
	MaxHot int `name:"max_hot" in:"0..1000000" default:"1000"`
	// The highest expected request rate of the rule, all keys together. If it is set, a number of counters that could
	// miss a hot key is an error at start and at reload. Default: `detect.max_rate`.
	MaxRate float64 `name:"max_rate" as:"cost rate"`
	// Each client counts for at most the threshold / `min_clients`, so one client in a loop makes no key hot. Up to
	// `32`; `0`: no cap. docs/detection.md#loops-and-min_clients. Default: `0`.
	MinClients int `name:"min_clients" in:"0..32"`
}

// QueryBounds bound the work that one request can cause and the keys it can make.
type QueryBounds struct {
	// Maximum number of pairs of a query, tracked or not.
	Pairs int `name:"pairs" in:"1..1048576" default:"256"`
	// Maximum length of a tracked name, decoded.
	NameBytes int `name:"name_bytes" in:"1..1048576" default:"64"`
	// Maximum length of a tracked value, decoded.
	ValueBytes int `name:"value_bytes" in:"1..1048576" default:"256"`
	// Maximum length of the raw query.
	QueryBytes int `name:"query_bytes" in:"1..1048576" default:"8192"`
	// Maximum length of the raw path. A longer path is denied before rules are evaluated.
	PathBytes int `name:"path_bytes" in:"1..1048576" default:"8192"`
}

// Redaction is the name of a parameter and the replacement of its value in keys: hash, mask or drop.
type Redaction struct{ Name, Redact string }

// Redactions are redacted in every rule, in their order.
type Redactions []Redaction

// ParseAs describes how an upstream reads a request target: as a preset does, except for the traits that are set.
type ParseAs struct {
	// A server or framework, such as `django`, whose traits apply unless they are set; `strict` is safe for any. Empty:
	// a server that reads everything byte for byte.
	Preset string `name:"preset"`
	// Whether `/%74opic` is `/topic`.
	PathEscapes string `name:"path_escapes" words:"keep,decode"`
	// Whether `/Topic` is `/topic` (A-Z only); values of path wildcards keep their case.
	PathCase string `name:"path_case" words:"keep,fold"`
	// Whether `/topic/` is `/topic`; with `all`, `/topic///` too.
	TrailingSlash string `name:"trailing_slash" words:"keep,one,all"`
	// Whether `//topic` is `/topic`; with `all`, `/a//b` is `/a/b`.
	MergeSlashes string `name:"merge_slashes" words:"none,leading,all"`
	// Whether `/x/../topic` and `/./topic` are `/topic`, also with `%2e`.
	DotSegments string `name:"dot_segments" words:"keep,resolve"`
	// Whether `%2F` separates segments; `either` counts both readings (Go's mux splits there if the path has a byte
	// such as `^`).
	EncodedSlash string `name:"encoded_slash" words:"keep,slash,either"`
	// Whether `%5C` separates segments (a raw backslash is malformed).
	Backslash string `name:"backslash" words:"keep,slash"`
	// Whether `/topic;x=1` is `/topic`, in any segment.
	PathParams string `name:"path_params" words:"keep,drop"`
	// Whether `/topic.json` is `/topic`: the suffix after the only dot of the last segment.
	FormatSuffix string `name:"format_suffix" words:"keep,drop"`
	// Whether `/topic%0a` is `/topic`.
	FinalNewline string `name:"final_newline" words:"keep,drop"`
	// Whether `//host/topic` is `/topic`, with two slashes or more; `either` counts both readings.
	Authority string `name:"authority" words:"keep,drop,either"`
	// Whether `/a/star/` is an `/a/{id}/{slug}`.
	EmptyWildcard string `name:"empty_wildcard" words:"refuse,match"`
	// Whether a raw `#` ends the target, or makes it malformed. hotparam's listeners reject it in either case.
	Fragment string `name:"fragment" words:"malformed,cut"`
	// The names that are read as `id`: `qs` (Express 4) `id[…]` and `[id]`; `php` `id[…]`, leading spaces, the part
	// before a NUL, and dots, spaces and `[` as `_`; `rack` `id[…]`, `[id`, `id]`; `spring` `id[]`; `nginx` any case.
	Names string `name:"names" words:"plain,qs,php,rack,spring,nginx,any"`
	// Effect of a raw `;` in a query: it separates pairs (Rack 2), its pair is dropped (Go), or both readings count.
	Semicolon string `name:"semicolon" words:"text,separator,drop,either"`
	// Whether a pair with a `%` without two hex digits stays, is dropped (Go, Tomcat), or makes the request malformed
	// (Rack answers 400).
	BadEscape string `name:"bad_escape" words:"keep,drop,malformed"`
	// Whether `/topic??id=42` is `/topic?id=42`.
	QuestionMark string `name:"question_mark" words:"keep,drop"`
	// Keys of a parameter with several values that has no `duplicates`. No preset sets it: charging each value is
	// always safe.
	Duplicates string `name:"duplicates" words:"all,first,last,each"`
}
