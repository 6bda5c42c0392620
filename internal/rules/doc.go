// Package rules defines which requests are counted under which key, when a key is
// hot, and which limit then applies to it.
//
// [Parse] reads the YAML of docs/rules.md strictly and returns an
// immutable [Set], or an error with file, line and field. [Set.Match] turns a
// request into its keys. [Overrides] indexes the overrides of operators by
// precedence.
//
// The package is pure: it reads no file, no clock and no environment. A Set may be
// shared by any number of goroutines.
package rules
