package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/rules"
)

type overrideCmd struct {
	Ls      overrideLsCmd      `cmd:"" help:"List the overrides that have not ended."`
	Set     overrideSetCmd     `cmd:"" help:"Limit, exempt, block, watch or cache a key, a resource, a client, a network, a class."`
	Rm      overrideRmCmd      `cmd:"" help:"Remove overrides."`
	Enforce overrideEnforceCmd `cmd:"" help:"Enforce an override that is in shadow mode."`
	Undo    overrideUndoCmd    `cmd:"" help:"Take back the last change of an override, or a revision and all after it."`
	Diff    overrideDiffCmd    `cmd:"" help:"Tell what apply would change."`
	Apply   overrideApplyCmd   `cmd:"" help:"Make the overrides those of a file, as ls -o yaml prints it."`
}

// listedOverride is an override as an admin listener tells it, or as a file of apply says it.
type listedOverride struct {
	rules.Override
	For    time.Duration `json:"-"` // of a file: in place of until
	Source string        `json:"source,omitempty"`
	// What one in shadow mode met and would have denied; nil where that is not known.
	Hits      *uint64  `json:"hits,omitempty"`
	WouldDeny *uint64  `json:"would_deny,omitempty"`
	Pace      *float64 `json:"would_deny_per_second,omitempty"`
}

func (o *listedOverride) wouldDeny() string {
	if o.Hits == nil || o.WouldDeny == nil || o.Pace == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d, %s/s", *o.WouldDeny, *o.Hits, strconv.FormatFloat(*o.Pace, 'f', -1, 64))
}

func effect(o *rules.Override) string {
	mode := ""
	if o.InShadow() {
		mode = "in shadow: "
	}
	if o.Action != rules.ActionLimit && o.Action != "" {
		return mode + string(o.Action)
	}
	text := mode + strconv.FormatFloat(o.Rate, 'f', -1, 64) + "/s"
	if o.Burst > 0 {
		text += ", burst " + strconv.FormatInt(o.Burst, 10)
	}
	return text
}

func ending(o *rules.Override) string {
	if o.Until.IsZero() {
		return "removed"
	}
	return o.Until.UTC().Format(time.RFC3339)
}

func (c *adminFlags) overrides(ctx context.Context) ([]listedOverride, answer, error) {
	var a struct {
		Overrides []listedOverride
		Trouble   string
	}
	got, err := c.ask(ctx, question{path: "/v1/overrides"}, &a)
	if a.Trouble != "" {
		warn(os.Stderr, []string{a.Trouble})
	}
	return a.Overrides, got, err
}

type overrideLsCmd struct {
	adminFlags
	outputFlags
}

func (c *overrideLsCmd) Run(ctx context.Context, k *kong.Kong) error {
	list, answer, err := c.overrides(ctx)
	if err != nil {
		return err
	}
	return c.print(k, answer, func(t io.Writer) {
		row(t, "ID", "FOR", "EFFECT", "WOULD DENY", "UNTIL", "BY", "WRITTEN", "REASON")
		for i := range list {
			o := &list[i]
			row(t, o.ID, o.Target().String(), effect(&o.Override), o.wouldDeny(), ending(&o.Override), o.Author,
				o.Source, o.Reason)
		}
	})
}

type overrideSetCmd struct {
	adminFlags
	waitFlags
	confirmFlags
	Key      string   `arg:"" optional:"" help:"Key, such as 'topic?id=42', or a pattern with *."`
	Resource string   `help:"All keys of a rule."`
	Client   string   `placeholder:"ADDRESS" help:"One client."`
	CIDR     string   `name:"cidr" placeholder:"NETWORK" help:"Each client of a network."`
	Class    string   `help:"Each client of a class."`
	Rate     *float64 `placeholder:"N" help:"Limit to so many requests a second."`
	Burst    *int64   `placeholder:"N" help:"So many at once."`
	Action   string   `enum:"limit,exempt,block,shadow,cache" default:"limit" help:"What it does: ${enum}."`
	Mode     string   `enum:"enforce,shadow" default:"enforce" help:"shadow: deny no request, count what it would deny."`
	For      string   `placeholder:"15m" help:"For how long; default: until it is removed."`
	Until    string   `placeholder:"TIME" help:"Until when, such as 2026-12-01T00:00:00Z."`
	Reason   string   `help:"Why, for the audit."`
	Author   string   `help:"Who, for the audit; default: who is logged in. A token with a name stands above it."`
	ID       string   `name:"id" help:"ID of your own."`
}

func (c *overrideSetCmd) Run(ctx context.Context, k *kong.Kong) error {
	targets := 0
	for _, text := range []string{c.Key, c.Resource, c.Client, c.CIDR, c.Class} {
		if text != "" {
			targets++
		}
	}
	if targets != 1 {
		return config.Usage("override set: want one of a key, --resource, --client, --cidr, --class")
	}
	body := map[string]any{"action": c.Action}
	if c.Mode != string(hottype.ModeEnforce) { // programs before it know no mode
		body["mode"] = c.Mode
	}
	for name, text := range map[string]string{
		"key": c.Key, "resource": c.Resource, "client": c.Client, "cidr": c.CIDR, "class": c.Class, "for": c.For,
		"until": c.Until, "reason": c.Reason, "author": authorOf(c.Author),
	} {
		if text != "" {
			body[name] = text
		}
	}
	if c.Rate != nil { // 0 is said too, and is answered for what it is
		body["rate"] = *c.Rate
	}
	if c.Burst != nil {
		body["burst"] = *c.Burst
	}
	var revision int64
	if err := c.confirm(k, func(word url.Values) (err error) {
		revision, err = c.putOverride(ctx, k.Stdout, k.Stderr, c.ID, body, word)
		return err
	}); err != nil {
		return err
	}
	return c.waitFor(ctx, k, c.Wait, revision)
}

func (c *adminFlags) putOverride(ctx context.Context, out, warn io.Writer, id string,
	body any, query url.Values) (revision int64, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	path := "/v1/overrides"
	if id != "" {
		path += "/" + url.PathEscape(id)
	}
	return c.change(ctx, out, warn, "", question{
		method: http.MethodPut, path: path, query: query, body: string(text),
		header: http.Header{"Content-Type": {"application/json"}},
	})
}

// change asks for a change that is answered with an override, and says what holds now and what may not be meant.
func (c *adminFlags) change(ctx context.Context, out, warn io.Writer, did string,
	q question) (revision int64, err error) {
	var a struct {
		rules.Override
		Revision int64
		Warnings []string
	}
	if _, err = c.ask(ctx, q, &a); err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "%s: %s%s, %s, until %s\n",
		printable(a.ID), did, printable(a.Target().String()), effect(&a.Override), ending(&a.Override))
	for _, w := range a.Warnings {
		fmt.Fprintf(warn, "%s: %s\n", name, printable(w))
	}
	return a.Revision, nil
}

type overrideRmCmd struct {
	adminFlags
	waitFlags
	Author string   `help:"Who, for the audit; default: who is logged in."`
	IDs    []string `arg:"" name:"id" help:"IDs, as ls shows them."`
}

func (c *overrideRmCmd) Run(ctx context.Context, k *kong.Kong) error {
	for _, id := range c.IDs {
		if err := c.remove(ctx, k.Stdout, id, authorOf(c.Author)); err != nil {
			return err
		}
	}
	return c.waitForAll(ctx, k, c.Wait)
}

func (c *adminFlags) remove(ctx context.Context, out io.Writer, id, author string) error {
	_, err := c.ask(ctx, question{
		method: http.MethodDelete, path: "/v1/overrides/" + url.PathEscape(id), query: url.Values{"author": {author}},
	}, nil)
	if err == nil {
		fmt.Fprintf(out, "%s: removed\n", printable(id))
	}
	return err
}

type overrideEnforceCmd struct {
	adminFlags
	waitFlags
	confirmFlags
	ID     string `arg:"" help:"ID, as ls shows it."`
	Author string `help:"Who, for the audit; default: who is logged in."`
}

func (c *overrideEnforceCmd) Run(ctx context.Context, k *kong.Kong) error {
	var revision int64
	if err := c.confirm(k, func(word url.Values) (err error) {
		revision, err = c.change(ctx, k.Stdout, k.Stderr, "enforced; ", question{
			method: http.MethodPost, path: "/v1/overrides/" + url.PathEscape(c.ID) + "/enforce",
			query: merged(url.Values{"author": {authorOf(c.Author)}}, word),
		})
		return err
	}); err != nil {
		return err
	}
	return c.waitFor(ctx, k, c.Wait, revision)
}

type overrideUndoCmd struct {
	adminFlags
	waitFlags
	confirmFlags
	ID       string `arg:"" help:"ID, as ls shows it."`
	Revision int64  `placeholder:"N" help:"Take this revision and all after it back; default: the last change."`
	Author   string `help:"Who, for the audit; default: who is logged in."`
}

func (c *overrideUndoCmd) Run(ctx context.Context, k *kong.Kong) error {
	query := url.Values{"author": {authorOf(c.Author)}}
	if c.Revision != 0 {
		query.Set("revision", strconv.FormatInt(c.Revision, 10))
	}
	var revision int64
	if err := c.confirm(k, func(word url.Values) (err error) {
		revision, err = c.undo(ctx, k.Stdout, c.ID, merged(query, word))
		return err
	}); err != nil {
		return err
	}
	return c.waitFor(ctx, k, c.Wait, revision)
}

func (c *adminFlags) undo(ctx context.Context, out io.Writer, id string, query url.Values) (revision int64, err error) {
	var a struct {
		Override *rules.Override
		Revision int64
	}
	_, err = c.ask(ctx, question{
		method: http.MethodPost, path: "/v1/overrides/" + url.PathEscape(id) + "/undo", query: query,
	}, &a)
	if err != nil {
		return 0, err
	}
	text := "there is none now"
	if a.Override != nil {
		text = printable(a.Override.Target().String()) + ", " + effect(a.Override) + ", until " + ending(a.Override)
	}
	fmt.Fprintf(out, "%s: undone; %s\n", printable(id), text)
	return a.Revision, nil
}
