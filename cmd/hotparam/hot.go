package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
)

type hotCmd struct {
	Ls    hotLsCmd    `cmd:"" help:"List what is hot, and the loops."`
	Get   hotGetCmd   `cmd:"" help:"Tell of one key whether it is hot, and which limits hold it and why."`
	Watch hotWatchCmd `cmd:"" help:"Print what becomes hot or cold, loops and overrides, as it happens."`
	Reset hotResetCmd `cmd:"" help:"Have all limiters forget what a key, or a client, has used of its limits."`
}

type hotLsCmd struct {
	adminFlags
	outputFlags
	Limit int    `default:"50" help:"Most keys to list."`
	Sort  string `enum:"rate,share,clients,since,key,allowed,denied,served" default:"rate" help:"By what: ${enum}."`
	Find  string `placeholder:"TEXT" help:"Only keys and rules with this in their name."`
}

type hotAnswer struct {
	At      time.Time
	Matched int
	Keys    []admin.HotKey
	Loops   []hottype.HotKey
	Totals  admin.Totals
	Trouble []string
}

func (c *adminFlags) hotKeys(ctx context.Context, limit int, sort, find string) (a hotAnswer, got answer, err error) {
	got, err = c.ask(ctx, question{path: "/v1/hot", query: url.Values{
		"limit": {strconv.Itoa(limit)}, "sort": {sort}, "find": {find},
	}}, &a)
	return a, got, err
}

func (c *hotLsCmd) Run(ctx context.Context, k *kong.Kong) error {
	a, answer, err := c.hotKeys(ctx, c.Limit, c.Sort, c.Find)
	if err != nil {
		return err
	}
	warn(k.Stderr, a.Trouble) // else an empty table would look like a quiet site
	return c.print(k, answer, a.table)
}

func (a *hotAnswer) table(t io.Writer) {
	row(t, "KEY", "RULE", "STATE", "RATE", "CLIENTS", "SINCE", "LIMIT", "ALLOWED/S", "DENIED/S", "SERVED/S", "READS")
	for i := range a.Keys {
		h := &a.Keys[i]
		row(t, string(h.Key), h.Rule, "hot", number(&h.Rate), knownClients(h.Clients), since(a.At, h.Since),
			limitText(h), number(h.Allowed), number(h.Denied), number(h.Served), readable(h.Key))
	}
	for i := range a.Loops {
		h := &a.Loops[i]
		row(t, string(h.Key), h.Rule, "loop", number(&h.Rate), knownClients(h.Clients), since(a.At, h.Since),
			"", "", "", "", readable(h.Key))
	}
	if more := a.Matched - len(a.Keys); more > 0 {
		fmt.Fprintf(t, "and %d more; --limit shows them\n", more)
	}
}

// readable is a key with its values decoded, "" if that shows nothing more.
func readable(key hottype.Key) string {
	text, err := url.PathUnescape(string(key))
	if err != nil || text == string(key) || !utf8.ValidString(text) {
		return ""
	}
	return text
}

// limitText is what limits a key; "" for nothing.
func limitText(h *admin.HotKey) string {
	if h.Limit == nil {
		return ""
	}
	return h.Limit.Text
}

// number is a rate as people read it; "" where it is not known.
func number(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', 0, 64)
}

func since(now, at time.Time) string { return max(now.Sub(at), 0).Round(time.Second).String() }

type hotGetCmd struct {
	adminFlags
	Output string `short:"o" enum:"json,yaml" default:"yaml" help:"How to print it: ${enum}."`
	Key    string `arg:"" help:"Key, such as 'topic?id=42'."`
}

func (c *hotGetCmd) Run(ctx context.Context, k *kong.Kong) error {
	var a struct{ Key hottype.Key }
	answer, err := c.ask(ctx, question{path: "/v1/keys/" + url.PathEscape(c.Key)}, &a)
	if err != nil {
		return err
	}
	if text := readable(a.Key); text != "" && c.Output == "yaml" {
		fmt.Fprintf(k.Stdout, "# reads %s\n", printable(text))
	}
	return (&outputFlags{Output: c.Output}).print(k, answer, nil)
}

type hotWatchCmd struct {
	adminFlags
	Output string `short:"o" enum:"lines,json" default:"lines" help:"How to print it: ${enum}, one a line."`
	Find   string `placeholder:"TEXT" help:"Only keys with this in their name."`
}

// Run ends when the stream does.
func (c *hotWatchCmd) Run(ctx context.Context, k *kong.Kong) error {
	resp, err := c.send(ctx, question{path: "/v1/events"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	kind := ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "event":
			kind = value
		case name == "data" && kind == "change":
			if err := c.change(k, value); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return nil // asked to end
	}
	return errors.Join(fmt.Errorf("%s ended the stream", c.Admin), lines.Err())
}

func (c *hotWatchCmd) change(k *kong.Kong, data string) error {
	var v struct {
		At                        time.Time
		Kind, Key, Author, Client string
		Rate                      float64
	}
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		return fmt.Errorf("%s: the stream is not that of an admin listener: %w", c.Admin, err)
	}
	if !strings.Contains(v.Key, c.Find) {
		return nil
	}
	if c.Output == "json" {
		_, err := fmt.Fprintf(k.Stdout, "%s\n", escaped([]byte(data), jsonEscape))
		return err
	}
	text := fmt.Sprintf("%s %-14s %s", v.At.Local().Format("15:04:05 MST"), v.Kind, v.Key)
	if v.Rate > 0 {
		text += fmt.Sprintf("  %.0f/s", v.Rate)
	}
	if v.Author != "" {
		text += "  by " + v.Author
	}
	_, err := fmt.Fprintln(k.Stdout, printable(text))
	return err
}

type hotResetCmd struct {
	adminFlags
	Key    string `arg:"" optional:"" help:"Key, such as 'topic?id=42'."`
	Client string `placeholder:"CLIENT" help:"Client in place of a key: an address, or a name."`
}

func (c *hotResetCmd) Run(ctx context.Context, k *kong.Kong) error {
	path := "/v1/keys/" + url.PathEscape(c.Key) + "/reset"
	switch {
	case (c.Key == "") == (c.Client == ""):
		return config.Usage("hot reset: want a key or --client")
	case c.Client != "":
		path = "/v1/clients/" + url.PathEscape(c.Client) + "/reset"
	}
	var of struct{ Key, Client string }
	if _, err := c.ask(ctx, question{method: http.MethodPost, path: path,
		query: url.Values{"author": {authorOf("")}}}, &of); err != nil {
		return fmt.Errorf("hot reset: %w", err)
	}
	fmt.Fprintf(k.Stdout, "reset: %s\n", printable(of.Key+of.Client))
	return nil
}

// knownClients is a number of clients, "-" if it is not known.
func knownClients(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
