package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/rules"
)

type overrideFile struct {
	adminFlags
	File  string `arg:"" help:"YAML or JSON with a list overrides, as ls -o yaml prints it; - is standard input."`
	Prune bool   `help:"Remove the overrides that the file does not have."`
}

type overrideDiffCmd struct{ overrideFile }

func (c *overrideDiffCmd) Run(ctx context.Context, k *kong.Kong) error {
	put, gone, err := c.changes(ctx)
	if err != nil {
		return err
	}
	for _, p := range put {
		if p.before != nil {
			fmt.Fprintf(k.Stdout, "- %s\n", p.before.line())
		}
		fmt.Fprintf(k.Stdout, "+ %s\n", p.after.line())
	}
	for i := range gone {
		fmt.Fprintf(k.Stdout, "- %s\n", gone[i].line())
	}
	return nil
}

func (o *listedOverride) line() string {
	until := ending(&o.Override)
	if o.For > 0 {
		until = o.For.String() + " from now"
	}
	text := fmt.Sprintf("%s: %s, until %s", o.Target(), effect(&o.Override), until)
	if !o.Schedule.IsZero() {
		text += ", " + o.Schedule.String()
	}
	return printable(text)
}

type overrideApplyCmd struct {
	overrideFile
	waitFlags
	confirmFlags
	Author string `help:"Who, for the audit; default: who is logged in."`
}

func (c *overrideApplyCmd) Run(ctx context.Context, k *kong.Kong) error {
	put, gone, err := c.changes(ctx)
	if err != nil {
		return err
	}
	author := authorOf(c.Author)
	for _, p := range put {
		if err := c.confirm(k, func(word url.Values) error {
			_, err := c.putOverride(ctx, k.Stdout, k.Stderr, p.after.ID, p.after.body(author), word)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w; what is before it in the file is done", printable(p.after.Target().String()),
				err)
		}
	}
	for i := range gone {
		if err := c.remove(ctx, k.Stdout, gone[i].ID, author); err != nil {
			return err
		}
	}
	if len(put)+len(gone) == 0 {
		fmt.Fprintln(k.Stdout, "nothing to change")
	}
	return c.waitForAll(ctx, k, c.Wait)
}

// overrideBody is what is sent to have an override: all of it but what the store sets.
type overrideBody struct {
	rules.Override
	ID      string `json:"id,omitempty"`
	Created string `json:"created,omitempty"`
	For     string `json:"for,omitempty"`
}

func (o *listedOverride) body(author string) overrideBody {
	body := overrideBody{Override: o.Override}
	if body.Author = author; o.For > 0 {
		body.For = o.For.String()
	}
	return body
}

// overrideChange is what is to be set, and what there is of it.
type overrideChange struct{ before, after *listedOverride }

// changes compares a file with what holds. What is written in the rules file is no change's affair.
func (c *overrideFile) changes(ctx context.Context) (put []overrideChange, gone []listedOverride, err error) {
	want, err := readOverrides(c.File)
	if err != nil {
		return nil, nil, err
	}
	have, _, err := c.overrides(ctx)
	if err != nil {
		return nil, nil, err
	}
	have = slices.DeleteFunc(have, func(o listedOverride) bool { return o.Source == "file" })
	kept := map[string]bool{}
	for i := range want {
		w := &want[i]
		j := slices.IndexFunc(have, func(h listedOverride) bool { return h.Replaces(w.Override) })
		if j < 0 {
			put = append(put, overrideChange{after: w})
			continue
		}
		kept[have[j].ID] = true
		if w.For > 0 || !sameOverride(&have[j].Override, &w.Override) {
			w.ID = have[j].ID
			put = append(put, overrideChange{&have[j], w})
		}
	}
	if c.Prune {
		gone = slices.DeleteFunc(have, func(h listedOverride) bool { return kept[h.ID] })
	}
	return put, gone, nil
}

// sameOverride compares what overrides do, and why; not who made them, and when.
func sameOverride(a, b *rules.Override) bool {
	return a.Action == b.Action && a.Rate == b.Rate && a.Burst == b.Burst && a.Reason == b.Reason &&
		a.Until.Truncate(time.Millisecond).Equal(b.Until.Truncate(time.Millisecond))
}

// readOverrides reads a file of overrides. A field that no override has is an error.
func readOverrides(path string) ([]listedOverride, error) {
	text, err := readText(path)
	if err != nil {
		return nil, err
	}
	read, err := rules.ReadOverrides(path, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w; want a list of overrides, as override ls -o yaml prints it", err)
	}
	list := make([]listedOverride, len(read))
	for i, o := range read {
		list[i] = listedOverride{Override: o.Override, For: o.For}
	}
	return list, nil
}

type auditCmd struct {
	adminFlags
	outputFlags
	ID    string `arg:"" optional:"" help:"Only changes of this override."`
	Limit int    `default:"50" help:"Most changes to list."`
}

func (c *auditCmd) Run(ctx context.Context, k *kong.Kong) error {
	query := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	if c.ID != "" {
		query.Set("id", c.ID)
	}
	var a struct {
		Changes []rules.Change
		Rules   []rules.Revision
		Trouble string
	}
	answer, err := c.ask(ctx, question{path: "/v1/audit", query: query}, &a)
	if err != nil {
		return err
	}
	if a.Trouble != "" {
		warn(k.Stderr, []string{a.Trouble})
	}
	return c.print(k, answer, func(t io.Writer) {
		row(t, "REVISION", "TIME", "BY", "WHAT", "ID", "FOR", "EFFECT", "REASON")
		for i := range a.Changes {
			change := &a.Changes[i]
			of, target, does := cmp.Or(change.After, change.Before), change.Of, ""
			if of != nil {
				target, does = of.Target().String(), "removed"
			}
			if change.After != nil {
				does = effect(of) + ", until " + ending(of)
			}
			row(t, strconv.FormatInt(change.Revision, 10), change.At.UTC().Format(time.RFC3339), change.Author,
				change.Action, change.ID, target, does, cmp.Or(of, &rules.Override{}).Reason)
		}
		for i := range a.Rules {
			r := &a.Rules[i]
			row(t, strconv.FormatInt(r.Version, 10), r.At.UTC().Format(time.RFC3339), r.Author, r.Action,
				"", "rules", r.Only, r.Reason)
		}
	})
}

type historyCmd struct {
	Purge historyPurgeCmd `cmd:"" help:"Remove what is kept of a key, for good."`
}

type historyPurgeCmd struct {
	adminFlags
	Key    string `arg:"" help:"The whole key, such as 'topic?id=42'."`
	Author string `help:"Who, for the history; default: who is logged in."`
}

func (c *historyPurgeCmd) Run(ctx context.Context, k *kong.Kong) error {
	var a struct{ Rows int64 }
	q := question{method: http.MethodDelete, path: "/v1/history",
		query: url.Values{"key": {c.Key}, "author": {authorOf(c.Author)}}}
	if _, err := c.ask(ctx, q, &a); err != nil {
		return err
	}
	fmt.Fprintf(k.Stdout, "%d minutes, hours, spans and events were removed\n", a.Rows)
	return nil
}
