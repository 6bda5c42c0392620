package parseas

import (
	"maps"
	"slices"

	"github.com/hotparam/pipeline/internal/canon"
)

// Strict is the preset for an upstream that is not known. It reads a target in all the ways in which the other presets
// read it: each way for itself, and all of them at once.
const Strict = "strict"

var aliases = map[string]string{
	"express": "express4", "koa": "koa-router", "node": "node-URL", "php": "nginx-fpm-php", "spring": "spring-boot",
	"tomcat": "tomcat-servlet", "go": "go-servemux", "starlette": "fastapi", "nginx-proxy": "nginx-proxy-uri>express4",
}

// Preset returns the traits of an upstream by its name or a short alias, and false for unknown names.
func Preset(name string) (Traits, bool) {
	if long, ok := aliases[name]; ok {
		name = long
	}
	t, ok := presets[name]
	t.Preset, t.Known = name, true
	return t, ok
}

// Presets returns the names of all presets, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Names returns the names of presets and their short aliases, sorted.
func Names() []string {
	all := slices.AppendSeq(Presets(), maps.Keys(aliases))
	slices.Sort(all)
	return all
}

// The traits that upstreams share.
var (
	express = Path{Fold: true, TrailingSlash: SlashesOne}
	// nginx decodes, merges and resolves before it compares.
	nginx = Path{Decode: true, MergeSlashes: MergeAll, DotSegments: true, EncodedSlash: true}
	// A WSGI or ASGI server passes the decoded path on.
	gateway = Path{Decode: true, EncodedSlash: true}

	goQuery   = canon.QuerySyntax{Semicolon: canon.SemicolonDrop, BadEscape: canon.BadEscapeDrop}
	rackQuery = canon.QuerySyntax{Names: canon.NamesRack, Semicolon: canon.SemicolonSeparator,
		BadEscape: canon.BadEscapeMalformed}
	qsQuery = canon.QuerySyntax{Names: canon.NamesQS}
)

// presets are the traits of the measured upstreams: see rules/testdata/upstreams.json.
var presets = map[string]Traits{
	"express4":   {Path: express, CutFragment: true, Query: qsQuery},
	"express5":   {Path: express, CutFragment: true},
	"koa-router": {Path: express, CutFragment: true, Query: canon.QuerySyntax{Question: true}},
	"fastify":    {Path: Path{Decode: true, EmptyWildcard: true}},
	"hono":       {Path: Path{Decode: true, DotSegments: true}, CutFragment: true},
	// It takes a raw backslash for a slash, but not %5C. A target with a raw backslash is faulty anyway.
	"node-URL": {Path: Path{DotSegments: true, Authority: true}, CutFragment: true},
	// It drops //user@host, but not //host.
	"node-url.parse": {CutFragment: true, EitherAuthority: true},

	"django": {Path: gateway, CutFragment: true},
	"flask":  {Path: Path{Decode: true, EncodedSlash: true, MergeSlashes: MergeLeading}, CutFragment: true},
	// A fragment ends the target, but the fragment of /topic?#x&id=star is read as a query.
	"fastapi": {Path: Path{Decode: true, EncodedSlash: true, FinalNewline: true}},

	"php-S": {
		Path: Path{Decode: true, Authority: true}, CutFragment: true,
		Query: canon.QuerySyntax{Names: canon.NamesPHP, Question: true},
	},
	"nginx-fpm-php": {Path: nginx, CutFragment: true, Query: canon.QuerySyntax{Names: canon.NamesPHP}},
	"nginx":         {Path: nginx, CutFragment: true, Query: canon.QuerySyntax{Names: canon.NamesNginx}},
	"nginx-proxy-uri>express4": {
		Path: Path{
			Decode: true, Fold: true, TrailingSlash: SlashesOne, MergeSlashes: MergeAll, DotSegments: true,
			EncodedSlash: true,
		},
		CutFragment: true, Query: qsQuery,
	},
	"nginx-proxy>express4": {Path: express, CutFragment: true, Query: qsQuery},

	"spring-boot": {Path: Path{Decode: true, PathParams: true}, Query: canon.QuerySyntax{Names: canon.NamesSpring}},
	"tomcat-servlet": {
		// Tomcat routes /topic/. as /topic, though not /topic/.
		Path: Path{Decode: true, PathParams: true, MergeSlashes: MergeAll, DotSegments: true,
			TrailingSlash: SlashesOne},
		Query: canon.QuerySyntax{BadEscape: canon.BadEscapeDrop},
	},

	// It splits at %2F too if a path has a byte that has to be escaped, such as "^".
	"go-servemux": {Path: Path{Decode: true}, EitherSlash: true, Query: goQuery},
	"gin":         {Path: gateway, Query: goQuery},
	"echo":        {Query: goQuery},
	"fiber":       {Path: Path{Fold: true, TrailingSlash: SlashesAll}, CutFragment: true},
	"chi":         {Query: goQuery},

	"rack": {CutFragment: true, Query: rackQuery},
	"sinatra": {
		Path: Path{
			Decode: true, MergeSlashes: MergeAll, DotSegments: true, EncodedSlash: true, Backslash: true,
		},
		CutFragment: true, Query: rackQuery,
	},
	"rails": {
		Path: Path{TrailingSlash: SlashesAll, MergeSlashes: MergeAll, Suffix: true}, CutFragment: true,
		Query: rackQuery,
	},

	"axum": {CutFragment: true},

	Strict: {
		Path: Path{
			Decode: true, Fold: true, TrailingSlash: SlashesAll, MergeSlashes: MergeAll, DotSegments: true,
			EncodedSlash: true, Backslash: true, PathParams: true, Suffix: true, FinalNewline: true,
			EmptyWildcard: true,
		},
		EitherAuthority: true, EveryPath: true,
		Query: canon.QuerySyntax{Names: canon.NamesAny, Semicolon: canon.SemicolonEither, Question: true},
	},
}
