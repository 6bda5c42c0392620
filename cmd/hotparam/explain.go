package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/canon"
	reasons "github.com/hotparam/pipeline/internal/deciding/explain"
	"github.com/hotparam/pipeline/internal/rules"
)

type explainCmd struct {
	Privacy config.Privacy `embed:"" prefix:"privacy."`
	Config  string         `short:"c" placeholder:"FILE" help:"YAML file with the rules."`
	outputFlags
	Header   []string     `short:"H" sep:"none" placeholder:"'Name: value'" help:"A header of the requests."`
	IP       string       `name:"ip" placeholder:"ADDRESS" help:"Address of the client."`
	Names    config.Names `embed:"" prefix:"names."`
	Requests []string     `arg:"" name:"method-or-url" help:"URLs or request targets; a method applies to the targets that follow it."`
}

// explanation is how one request is seen under one rule. The JSON names are a
// contract.
type explanation struct {
	Target    string   `json:"target"`
	Method    string   `json:"method"`
	Rule      string   `json:"rule"`
	Resource  string   `json:"resource"`
	Key       string   `json:"key"`
	Metric    string   `json:"metric"`
	Params    string   `json:"params"`
	Also      []string `json:"also,omitempty"` // the request's other keys under the rule
	Malformed bool     `json:"malformed,omitempty"`
	// ParseAs is how the rule reads targets: its parse_as.
	ParseAs string   `json:"parse_as,omitempty"`
	Client  string   `json:"client,omitempty"`
	Class   string   `json:"class,omitempty"`
	Limits  []string `json:"limits"`
}

func (c *explainCmd) Run(k *kong.Kong, p *config.Parser) error {
	set, err := p.Rules()
	if err != nil {
		return err
	}
	names, err := c.Names.Metric()
	if err != nil {
		return err
	}
	header, err := parseHeaders(c.Header)
	if err != nil {
		return err
	}
	var list []explanation
	method := http.MethodGet
	for _, arg := range c.Requests {
		if isMethod(arg) {
			method = arg
			continue
		}
		req := c.newRequest(method, arg, header)
		list = append(list, explainRequest(set, names, &req)...)
	}
	if list == nil {
		return config.Usage("explain: no URL after the method %s", method)
	}
	return c.Print(k.Stdout, list, func(out io.Writer) error {
		for _, e := range list {
			if err := e.write(out); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *explainCmd) newRequest(method, target string, header http.Header) hottype.Request {
	req := hottype.Request{Method: method, Target: target, Host: header.Get("Host"), Header: header}
	if i := strings.Index(target, "://"); i > 0 && !strings.ContainsAny(target[:i], "/?") {
		if u, err := url.Parse(target); err == nil && req.Host == "" {
			req.Host = u.Host
		}
		// A client never sends the fragment.
		req.Target, _, _ = strings.Cut(target, "#")
	}
	if c.IP != "" {
		req.Client = hottype.ParseClient(c.IP)
	}
	return req
}

// explainRequest returns an explanation for each key of a request, or one that says that no rule matches.
func explainRequest(set *rules.Set, names canon.Names, req *hottype.Request) []explanation {
	var out []explanation
	state := reasons.State{Rules: set, At: time.Now()}
	for _, found := range state.Explain(req) {
		e := explanation{Target: req.Target, Method: req.Method, Rule: found.Rule, Key: string(found.Key),
			Malformed: found.Malformed, ParseAs: found.ParseAs, Client: found.Client, Class: found.Class,
			Limits: found.Limits}
		for _, key := range found.Also {
			e.Also = append(e.Also, string(key))
		}
		if e.Rule != "" {
			e.Resource, e.Params = found.Key.Cut()
			e.Metric = string(names.Append(nil, found.Key))
		}
		out = append(out, e)
	}
	return out
}

func (e explanation) write(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tab, "%s\t%s\n", name, printableText(value))
		}
	}
	row("request", e.Method+" "+e.Target)
	row("rule", e.Rule)
	row("resource", e.Resource)
	row("key", e.Key)
	row("metric", e.Metric)
	for _, key := range e.Also {
		row("also", key+": the request is denied if one of its keys is")
	}
	row("params", strings.ReplaceAll(e.Params, "&", "  "))
	if e.Malformed {
		row("malformed", malformedReason(e.Method, e.Target)+"; it is counted under this key")
	}
	if e.ParseAs == "none" {
		e.ParseAs =
			"none: other spellings that the upstream takes for this are not known; set parse_as: NAME in the rules"
	}
	row("parse_as", e.ParseAs)
	row("client", e.Client)
	row("class", e.Class)
	for _, l := range e.Limits {
		row("limit", l)
	}
	fmt.Fprintln(tab)
	return tab.Flush()
}

func malformedReason(method, target string) string {
	if fault := hottype.InvalidTargetReason(method, target); fault != "" {
		return "the target has " + fault
	}
	return "the query is beyond the bounds (names, values, pairs, length, more than 4 keys), or the upstream rejects it"
}

// printableText returns a text in which U+FFFD replaces everything on which a terminal would act: control bytes, and
// marks that turn the direction of text.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// isMethod reports whether an argument is a method and not a target: methods are upper-case letters.
func isMethod(s string) bool { return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" }

func parseHeaders(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		k, v, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(k) == "" {
			return nil, config.Usage("-H %q must be 'Name: value'", line)
		}
		h.Add(strings.TrimSpace(k), strings.TrimSpace(v))
	}
	return h, nil
}
