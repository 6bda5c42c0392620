package main

import (
	"bufio"
	"cmp"
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
	"github.com/hotparam/pipeline/internal/app/output"
	"github.com/hotparam/pipeline/internal/operator/admin"
)

type hotCmd struct {
	Ls    hotLsCmd    `cmd:"" help:"List hot keys and loops."`
	Get   hotGetCmd   `cmd:"" help:"Print whether a key is hot, and the limits that apply to it and why."`
	Watch hotWatchCmd `cmd:"" help:"Print each change of hot keys, loops and overrides as it happens."`
	Reset hotResetCmd `cmd:"" help:"Reset the used part of the limits of a key or a client in all limiters."`
}

type hotLsCmd struct {
	adminFlags
	outputFlags
	Limit int    `default:"50" help:"Maximum number of keys."`
	Sort  string `enum:"rate,threshold,share,clients,since,key,allowed,denied,served,would" default:"rate" help:"Order: ${enum}."`
	Find  string `placeholder:"TEXT" help:"Only keys and rules whose name contains this text."`
}

type hotAnswer struct {
	At      time.Time
	Matched int
	Keys    []admin.HotKey
	Loops   []hottype.HotKey
	Totals  admin.Totals
	Trouble []string
}

func (c *adminFlags) fetchHotKeys(ctx context.Context, limit int,
	sort, find string) (a hotAnswer, got answer, err error) {
	got, err = c.askAdmin(ctx, question{path: "/v1/hot", query: url.Values{
		"limit": {strconv.Itoa(limit)}, "sort": {sort}, "find": {find},
	}}, &a)
	return a, got, err
}

func (c *hotLsCmd) Run(ctx context.Context, k *kong.Kong) error {
	a, answer, err := c.fetchHotKeys(ctx, c.Limit, c.Sort, c.Find)
	if err != nil {
		return err
	}
	printWarnings(k.Stderr, a.Trouble) // without it an empty table would look like a quiet site
	return c.printTable(k.Stdout, answer, a.writeRows)
}

func (a *hotAnswer) writeRows(t io.Writer) {
	writeRow(t, "KEY", "RULE", "STATE", "RATE", "CLIENTS", "SINCE", "LIMIT", "ALLOWED/S", "DENIED/S", "SERVED/S",
		"READS")
	for i := range a.Keys {
		h := &a.Keys[i]
		writeRow(t, string(h.Key), h.Rule, "hot", keyRate(&h.HotKey), formatClients(h.Clients),
			formatAge(a.At, h.Since), limitText(h), formatRate(h.Allowed), formatDenied(h), formatRate(h.Served),
			decodedKey(h.Key))
	}
	for i := range a.Loops {
		h := &a.Loops[i]
		writeRow(t, string(h.Key), h.Rule, "loop", keyRate(h), formatClients(h.Clients),
			formatAge(a.At, h.Since), "", "", "", "", decodedKey(h.Key))
	}
	if more := a.Matched - len(a.Keys); more > 0 {
		fmt.Fprintf(t, "and %d more; --limit shows them\n", more)
	}
}

// decodedKey returns a key with its values decoded, or "" if decoding changes nothing or yields invalid text.
func decodedKey(key hottype.Key) string {
	text, err := url.PathUnescape(string(key))
	if err != nil || text == string(key) || !utf8.ValidString(text) {
		return ""
	}
	return text
}

// limitText returns the text of the limit of a key, or "" if the key has no limit.
func limitText(h *admin.HotKey) string {
	if h.Limit == nil {
		return ""
	}
	return h.Limit.Text
}

// formatDenied formats the denied requests of a key, and the requests that a limit in shadow mode would have denied.
func formatDenied(h *admin.HotKey) string {
	if h.WouldDeny == nil || *h.WouldDeny == 0 {
		return formatRate(h.Denied)
	}
	return formatRate(h.Denied) + ", would " + formatRate(h.WouldDeny)
}

// formatRate formats a rate for people. It returns "" if the rate is not known.
func formatRate(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', 0, 64)
}

// keyRate formats the rate of a key for people, with its unit if it is not of requests.
func keyRate(h *hottype.HotKey) string {
	if h.Cost.IsRequests() {
		return formatRate(&h.Rate)
	}
	return h.Cost.FormatRate(h.Rate)
}

func formatAge(now, at time.Time) string { return max(now.Sub(at), 0).Round(time.Second).String() }

type hotGetCmd struct {
	adminFlags
	outputFlags
	Key string `arg:"" help:"Key, such as 'topic?id=42'."`
}

func (c *hotGetCmd) Run(ctx context.Context, k *kong.Kong) error {
	a, answer, err := c.fetchKey(ctx, c.Key)
	if err != nil {
		return err
	}
	return c.Print(k.Stdout, answer, func(out io.Writer) error {
		if text := decodedKey(a.Key); text != "" {
			fmt.Fprintf(out, "# reads %s\n", printableText(text))
		}
		return (&output.Flags{Output: "yaml"}).Print(out, answer, nil)
	})
}

type keyAnswer struct {
	Key   hottype.Key
	Asked string
}

// fetchKey asks about a key. It fails if the listener was asked about another key.
func (c *adminFlags) fetchKey(ctx context.Context, key string) (a keyAnswer, raw answer, err error) {
	raw, err = c.askAdmin(ctx, question{path: "/v1/key", query: url.Values{"key": {key}}}, &a)
	if err == nil {
		err = c.checkAsked(key, a.Asked)
	}
	return a, raw, err
}

type hotWatchCmd struct {
	adminFlags
	Output string `short:"o" enum:"lines,json" default:"lines" help:"Form of the output: ${enum}, one change per line."`
	Find   string `placeholder:"TEXT" help:"Only keys whose name contains this text."`
}

// Run prints changes until the stream ends, or until nothing has arrived for the time of --timeout, because a
// server sends its state each second.
func (c *hotWatchCmd) Run(ctx context.Context, k *kong.Kong) error {
	heard, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := time.AfterFunc(c.Timeout, func() {
		end(fmt.Errorf("%s has sent nothing for %v; is it stopped or overloaded?", config.Redact(c.Admin), c.Timeout))
	})
	defer silence.Stop()
	resp, err := c.send(heard, question{path: "/v1/events"})
	if err != nil {
		return cmp.Or(causeOf(ctx, heard), err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	kind := ""
	for lines.Scan() {
		silence.Reset(c.Timeout)
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "event":
			kind = value
		case name == "data" && kind == "change":
			if err := c.printChange(k, value); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return nil // the user ended it
	}
	return cmp.Or(causeOf(ctx, heard), errors.Join(fmt.Errorf("%s ended the stream", c.Admin), lines.Err()))
}

// causeOf returns why inner has ended, or nil if it has not ended, or ended because outer did.
func causeOf(outer, inner context.Context) error {
	if outer.Err() == nil {
		return context.Cause(inner)
	}
	return nil
}

func (c *hotWatchCmd) printChange(k *kong.Kong, data string) error {
	var v struct {
		At                        time.Time
		Kind, Key, Author, Client string
		Cost                      hottype.Cost
		Rate                      float64
		Denied                    int64
		WouldDeny                 int64 `json:"would_deny"`
	}
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		return fmt.Errorf("%s: the stream is not from an admin listener: %w", c.Admin, err)
	}
	if !strings.Contains(v.Key, c.Find) {
		return nil
	}
	if c.Output == "json" {
		_, err := fmt.Fprintf(k.Stdout, "%s\n", output.EscapeJSON([]byte(data)))
		return err
	}
	text := fmt.Sprintf("%s %-14s %s", v.At.Local().Format("15:04:05 MST"), v.Kind, v.Key)
	if v.Rate > 0 {
		rate := keyRate(&hottype.HotKey{Cost: v.Cost, Rate: v.Rate})
		if v.Cost.IsRequests() {
			rate += "/s"
		}
		text += "  " + rate
	}
	if v.Denied > 0 {
		text += fmt.Sprintf("  %d denied", v.Denied)
	}
	if v.WouldDeny > 0 {
		text += fmt.Sprintf("  would deny %d", v.WouldDeny)
	}
	if v.Author != "" {
		text += "  by " + v.Author
	}
	_, err := fmt.Fprintln(k.Stdout, printableText(text))
	return err
}

type hotResetCmd struct {
	adminFlags
	outputFlags
	Key    string `arg:"" optional:"" help:"Key, such as 'topic?id=42'."`
	Client string `placeholder:"CLIENT" help:"Client in place of a key: an address, or a name."`
}

func (c *hotResetCmd) Run(ctx context.Context, k *kong.Kong) error {
	path, query := "/v1/key/reset", url.Values{"key": {c.Key}, "author": {authorOf("")}}
	var err error
	switch { // nothing is reset before the listener has named its target
	case (c.Key == "") == (c.Client == ""):
		return config.Usage("hot reset: name a key or --client")
	case c.Client != "":
		path, query = "/v1/client/reset", url.Values{"client": {c.Client}, "author": {authorOf("")}}
		_, _, err = c.fetchClient(ctx, c.Client)
	default:
		_, _, err = c.fetchKey(ctx, c.Key)
	}
	if err != nil {
		return fmt.Errorf("hot reset: %w", err)
	}
	var of struct{ Key, Client string }
	answer, err := c.askAdmin(ctx, question{method: http.MethodPost, path: path, query: query}, &of)
	if err != nil {
		return fmt.Errorf("hot reset: %w", err)
	}
	return c.printLine(k.Stdout, answer, "reset: %s", printableText(of.Key+of.Client))
}

// formatClients formats a number of clients. It returns "-" if the number is not known.
func formatClients(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
