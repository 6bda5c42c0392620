package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
)

// fieldsOnly are the upstreams that only fields.tsv has: versions that are in use and read methods or fields
// differently from the upstreams of upstreams.json.
var fieldsOnly = []string{"gunicorn-20.1>django", "gunicorn-20.1>flask"}

// loginRead is the answer of /login, with the values that its handler read.
type loginRead struct {
	Saw     bool   `json:"saw"`
	Method  string `json:"method"`
	Host    string `json:"host"`
	Account string `json:"account"`
}

// fieldRequest is a request for /login. Each byte of it is sent as it is here.
type fieldRequest struct {
	method, host string
	lines        []string // of the header, without Host
}

// fieldRequests are the requests that each differ from the first in the spelling of one part.
var fieldRequests = spellFields()

func spellFields() []fieldRequest {
	const host = "a.example"
	victim := []string{"X-Account: victim"}
	var all []fieldRequest
	for _, method := range []string{"POST", "post", "POSt", "Post", "GET", "Get", "get", "pOST"} {
		all = append(all, fieldRequest{method, host, victim})
	}
	for _, other := range []string{
		"a.example:80", "a.example:", "a.example:80:1", "a.example:x", "a.example.", "a.example..", "a..example",
		"A.EXAMPLE", "A.Example.:80", "A.EXAMPLE.", "x@a.example", "a.example@x", "a.example/x", "a.example?x",
		"a.example#x", "a.example,b.example", "a.example b", "a.example\xe9", "%61.example", "a_example", "[a.example]",
		"b.example",
	} {
		all = append(all, fieldRequest{"POST", other, victim})
	}
	for _, lines := range [][]string{
		{"X-Account: x", "X-Account: victim"},
		{"X-Account: victim", "X-Account: x"},
		{"X-Account: victim", "X-Account: victim"},
		{"X-Account: ", "X-Account: victim"},
		{"X-Account: victim", "X-Account: "},
		{"X-Account: x", "x-account: victim"},
		{"x-account: victim"},
		{"X-ACCOUNT: victim"},
		{"X-Account: x,victim"},
		{"X-Account: x, victim"},
		{"X-Account: victim,"},
		{"X_Account: victim"},
		{"X.Account: victim"},
		{"X~Account: victim"},
		{"X_ACCOUNT: victim"},
		{"X-Account: x", "X_Account: victim"},
		{"X_Account: victim", "X-Account: x"},
		{"X_Account: x", "X-Account: victim"},
		{"X-Account:  victim \t"},
		{"X-Account : victim"},
		{"X-Account: \xa0victim"},
		{"X-Account: victim\xa0"},
		{"X-Account: \x85victim"},
		{"X-Account: \x0bvictim"},
		{"X-Account: \xc2\xa0victim"},
		{"X-Account: victim\xc2\xa0"},
		{"X-Account: \"victim\""},
		{"X-Account: v%69ctim"},
		{"X-Account: victim", "Connection: X-Account"},
		{"X-Account: x", "X-HTTP-Method-Override: GET"},
	} {
		all = append(all, fieldRequest{"POST", host, lines})
	}
	return all
}

// fieldsTable has the answer of each upstream to each request, both in the form of fields.tsv.
type fieldsTable map[string]map[string]string

const fieldsHead = `# What upstreams read of a request for /login, sent over a raw socket: method, Host, and the lines of its header, joined
# by "|"; then method, host and X-Account as the handler for GET and POST read them, or "-" and the status, 0 if no
# answer came; then the upstreams. No value is an empty one. Bytes that are not ASCII are escaped as in Go.
# test/parseas writes this file. Versions are those of upstreams.json, and gunicorn 20.1.0.
`

func readFields(file string) (fieldsTable, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	table := fieldsTable{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(f) < 5 {
			continue
		}
		for _, name := range strings.Split(f[len(f)-1], ",") {
			table.set(name, strings.Join(f[:3], "\t"), strings.Join(f[3:len(f)-1], "\t"))
		}
	}
	return table, nil
}

func (t fieldsTable) set(name, request, answer string) {
	if t[request] == nil {
		t[request] = map[string]string{}
	}
	t[request][name] = answer
}

// measure sends every request to one upstream, puts the values that it read into the table, and returns the number of
// answers that have changed.
func (t fieldsTable) measure(ctx context.Context, name, addr string) (differences int) {
	for _, r := range fieldRequests {
		was, now := t[r.String()][name], r.ask(ctx, addr)
		if now != was {
			differences++
			fmt.Printf("%-26s %q was %q, is %q\n", name, r.String(), was, now)
		}
		t.set(name, r.String(), now)
	}
	return differences
}

// write writes the table in the order of fieldRequests, with a line for each answer.
func (t fieldsTable) write(file string) error {
	text := fieldsHead
	for _, r := range fieldRequests {
		names := map[string][]string{}
		for _, name := range slices.Sorted(maps.Keys(t[r.String()])) {
			answer := t[r.String()][name]
			names[answer] = append(names[answer], name)
		}
		for _, answer := range slices.Sorted(maps.Keys(names)) {
			text += r.String() + "\t" + answer + "\t" + strings.Join(names[answer], ",") + "\n"
		}
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // a file of the repository
}

// ask sends a request and returns the values that the handler read, in the form of the file.
func (r fieldRequest) ask(ctx context.Context, addr string) string {
	text := r.method + " /login HTTP/1.1\r\nHost: " + r.host + "\r\n" + strings.Join(r.lines, "\r\n") + "\r\n"
	if !strings.Contains(text, "\nConnection:") {
		text += "Connection: close\r\n"
	}
	status, body := exchange(ctx, addr, r.method, []byte(text+"Content-Length: 0\r\n\r\n"))
	var read loginRead
	if p := strings.SplitN(string(body), "|", 4); p[0] == "nginx" && len(p) == 4 { // it writes no JSON
		read = loginRead{true, p[1], p[2], p[3]}
	} else if json.Unmarshal(body, &read) != nil {
		read.Saw = false
	}
	if status != http.StatusOK || !read.Saw {
		return "-" + strconv.Itoa(status)
	}
	return escaped(read.Method) + "\t" + escaped(read.Host) + "\t" + escaped(read.Account)
}

func (r fieldRequest) String() string {
	return r.method + "\t" + escaped(r.host) + "\t" + escaped(strings.Join(r.lines, "|"))
}

func escaped(text string) string {
	quoted := strconv.QuoteToASCII(text)
	return quoted[1 : len(quoted)-1]
}
