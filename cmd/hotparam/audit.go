package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/rules"
)

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
	}
	answer, err := c.ask(ctx, question{path: "/v1/audit", query: query}, &a)
	if err != nil {
		return err
	}
	return c.print(k, answer, func(t io.Writer) {
		row(t, "REVISION", "TIME", "BY", "WHAT", "ID", "FOR", "EFFECT", "REASON")
		for i := range a.Changes {
			change := &a.Changes[i]
			of, does := change.After, "removed"
			if of == nil {
				of = change.Before
			} else {
				does = effect(of) + ", until " + ending(of)
			}
			if of == nil {
				of = &rules.Override{}
			}
			row(t, strconv.FormatInt(change.Revision, 10), change.At.UTC().Format(time.RFC3339), change.Author,
				change.Action, change.ID, of.Target().String(), does, of.Reason)
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
