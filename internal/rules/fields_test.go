package rules

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// TestMatch_ReadsFieldsAsUpstreamsDo: a request that reaches a handler counts as the request that has the method, the
// host and the value which the handler read, or is malformed, however method, host and header lines are spelled.
func TestMatch_ReadsFieldsAsUpstreamsDo(t *testing.T) {
	t.Parallel()
	set := mustParse(t, `
rules:
  - name: post
    match: {path: /login, methods: [POST], hosts: [a.example]}
    params: [header.X-Account]
    hot: {rate: 1}
  - name: get
    match: {path: /login, methods: [GET], hosts: [a.example]}
    params: [header.X-Account]
    hot: {rate: 1}
  - name: other
    match: {path: /login}
    params: [header.X-Account]
    hot: {rate: 1}
`)
	data, err := os.ReadFile("testdata/fields.tsv")
	if err != nil {
		t.Fatal(err)
	}
	reached := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(f) < 7 || isReadInAWayOfItsOwn(f) {
			continue
		}
		reached++
		sent := hottype.Request{Method: f[0], Host: unescaped(t, f[1]), Target: "/login", Header: fieldsOf(t, f[2])}
		account := strings.Trim(unescaped(t, f[5]), " \t")
		read := hottype.Request{Method: f[3], Host: unescaped(t, f[4]), Target: "/login",
			Header: http.Header{"X-Account": {account}}}
		if read.Host == "" || read.Host == "127.0.0.1" { // the handler has no host, or the name of the server
			read.Host = sent.Host
		}
		matches := slices.Clone(set.Match(&sent, new(Scratch)))
		if len(matches) != 0 && matches[0].Malformed {
			continue
		}
		got, want := keys(set, sent), keys(set, read)
		read.Header = http.Header{"X-Account": {asBytes(account)}}
		if got != want && got != keys(set, read) {
			t.Errorf("%s: is counted as %s, want %s", strings.TrimSpace(line), got, want)
		}
	}
	if reached < 100 {
		t.Errorf("%d kinds of answers are of handlers", reached)
	}
}

// TestMatch_TakesOtherNamesOfAHeaderAsMalformed: each of the first three hyphens may be sent as "_" or ".".
func TestMatch_TakesOtherNamesOfAHeaderAsMalformed(t *testing.T) {
	t.Parallel()
	set := mustParse(t, "rules: [{name: r, match: {path: /r}, params: [header.X-A-Bc-D-E], hot: {rate: 1}}]")
	for _, name := range []string{"X-A-Bc-D-E", "x_a_bc_d-e", "X.A.Bc.D-E", "X-a_bc.D-E", "X-A-Bc_D-E", "X.A-Bc-D-E",
		"XA-Bc-D-E", "X-A-Bc-D"} {
		want := map[string]string{"X-A-Bc-D-E": "r r?header.X-A-Bc-D-E=1", "XA-Bc-D-E": "r r", "X-A-Bc-D": "r r"}[name]
		if want == "" {
			want = "r r?!malformed"
		}
		h := http.Header{}
		h.Set(name, "1")
		if got := keys(set, hottype.Request{Method: "GET", Target: "/r", Header: h}); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// isReadInAWayOfItsOwn reports whether docs/evasion.md excepts what upstreams read in a line of the file.
func isReadInAWayOfItsOwn(line []string) bool {
	return strings.Contains(line[2], "X-HTTP-Method-Override") || // Rails takes it for the method
		line[5] == `victim\u00c2` // gunicorn 20.1 cuts a character that ends in A0
}

// fieldsOf returns the fields of a record. Their values are read as bytes.
func fieldsOf(t *testing.T, lines string) http.Header {
	t.Helper()
	h := http.Header{}
	for line := range strings.SplitSeq(lines, "|") {
		name, value, _ := strings.Cut(unescaped(t, line), ":")
		h.Add(name, strings.Trim(value, " \t"))
	}
	return h
}

// asBytes returns the bytes that a handler has read as Latin-1.
func asBytes(text string) string {
	var raw []byte
	for _, r := range text {
		if r > 0xff {
			return text
		}
		raw = append(raw, byte(r))
	}
	return string(raw)
}

func unescaped(t *testing.T, text string) string {
	t.Helper()
	raw, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		t.Fatal(text, err)
	}
	return raw
}
