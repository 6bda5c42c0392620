package hottype

import "strings"

// Key names what is counted and limited: a resource and its canonical
// parameters, written "resource?params" ("topic?id=42"), or the resource alone
// where no parameter is left. Package canon builds keys from requests; a Key
// made by hand must already be in canonical form.
type Key string

// NewKey joins a resource and its canonical parameters.
func NewKey(resource, params string) Key {
	if params == "" {
		return Key(resource)
	}
	return Key(resource + "?" + params)
}

// Cut splits the key at its first "?", which cannot occur inside a resource.
// Params is empty where the key is a resource alone.
func (k Key) Cut() (resource, params string) {
	resource, params, _ = strings.Cut(string(k), "?")
	return resource, params
}

// Resource is the part of the key before its parameters.
func (k Key) Resource() string { r, _ := k.Cut(); return r }

// Params is the canonical parameter string, "" where there is none.
func (k Key) Params() string { _, p := k.Cut(); return p }
