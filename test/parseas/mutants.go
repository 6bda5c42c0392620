package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// mutant is a request target that some upstream may read as /topic?id=star or as
// /articles/star/SLUG: one of the two, changed in one to four places.
func mutant(r *rand.Rand) string {
	m := spelled{path: "/topic", query: "id=star"}
	if r.IntN(2) == 0 {
		m = spelled{path: "/articles/star/" + pick(r, slugs), query: pick(r, []string{"", "", "x=1", "id=7"})}
	}
	for range 1 + r.IntN(4) {
		if m.query == "" || r.IntN(2) == 0 {
			m.path = changePath(r, m.path)
		} else {
			m.query = changeQuery(r, m.query)
		}
	}
	if r.IntN(8) == 0 {
		m.path = pick(r, authorities) + m.path
	}
	if m.query != "" {
		m.path += "?" + m.query
	}
	if r.IntN(30) == 0 {
		m.path += pick(r, []string{"#", "#x", "?#x&id=star", "#&id=7"})
	}
	return m.path
}

type spelled struct{ path, query string }

var (
	slugs = []string{
		"x", "x", "y.json", "a%2fb", "..", ".", "%2e", "%2e%2e", ".%2E", "", "star", "a;b", "x^", "\x80",
		"%C0%AF", "a%5cb", "%zz", "{x}", "x%0a", "%2F", "..%2f", "%252e%252e", "%00",
	}
	authorities = []string{
		"//h", "///h", "////h", "//u@h", "//h:80", "http://h", "http:/", "HTTP://u@h", "//h/..", "/%2f..",
		"/^%2f..", "/", "//", "/.", "/%2e", "/h/..", "/h/%2e%2e", "/;", "/./", "/h//../..",
	}
	pieces = []string{
		"/", "//", "/.", "/./", "/x/..", "/%2e", "/x/%2E.", "/..", "%2f", "%2F..%2f", "%5c", ";", ";x=1", ".",
		".json", "%0a", "%0A", "%20", "^", "|", "`", "<x>", "\xe9", "%ff", "%00", "%", "%zz", "%C0%AE%C0%AE",
		"\"", "~", "*", "%3b", "%23", "%3f", ":", "@",
	}
	pairs = []string{
		"id=7", "id=star", "x=1", "id", "=", "", "", "id[]=star", "id[0]=star", "id[a]=star", "[id]=star",
		"id]=star", "id[=star", "ID=star", "+id=star", "id.=star", "id%00x=star", "amp;id=star", "id=%zz",
		"x=1;id=star", "id=star;x", ";", "%69d=star", "id%5B%5D=star", "id=star%00", "id=star+", "id=s%74ar",
		"id=st%2561r", "id=%C1%B3tar", "i%64[]=7", "[]id=star", "%20id=star", "id==star", "?id=star",
		"id=star?", "id=Star", "x[id]=star", "id=star%ff",
	}
)

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func changePath(r *rand.Rand, path string) string {
	at := r.IntN(len(path) + 1)
	switch r.IntN(6) {
	case 0:
		return path[:at] + pick(r, pieces) + path[at:]
	case 1:
		return path + pick(r, pieces)
	case 2: // at a slash
		if i := strings.IndexByte(path[at:], '/'); i >= 0 {
			return path[:at+i] + pick(r, pieces) + path[at+i:]
		}
		return pick(r, pieces) + path
	case 3:
		if at < len(path) && path[at] >= 'a' && path[at] <= 'z' {
			return path[:at] + string(path[at]-32) + path[at+1:]
		}
	}
	return escape(r, path)
}

func changeQuery(r *rand.Rand, query string) string {
	switch r.IntN(4) {
	case 0:
		return escape(r, query)
	case 1:
		all := append(strings.Split(query, "&"), pick(r, pairs))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return strings.Join(all, pick(r, []string{"&", "&", "&", "&&", ";"}))
	case 2:
		at := r.IntN(len(query) + 1)
		return query[:at] + pick(r, []string{"[", "]", "%5b", "%00", "+", ";", "&", ".", "%20", "=", "?", "%26", "%3d",
			"%0a", "\xff", "\xc3\xa9", "^", "|"}) + query[at:]
	}
	all := strings.Split(query, "&")
	all[r.IntN(len(all))] = pick(r, pairs)
	return strings.Join(all, "&")
}

// escape escapes a byte: once, twice or overlong.
func escape(r *rand.Rand, text string) string {
	if text == "" {
		return text
	}
	at := r.IntN(len(text))
	c := text[at]
	if c == '%' {
		return text
	}
	forms := []string{fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c), fmt.Sprintf("%%%02x", c),
		fmt.Sprintf("%%25%02x", c), fmt.Sprintf("%%%02X%%%02X", 0xC0|c>>6, 0x80|c&0x3F)}
	return strings.Join(slices.Concat([]string{text[:at]}, []string{pick(r, forms)}, []string{text[at+1:]}), "")
}
