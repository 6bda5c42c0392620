package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/alecthomas/kong"
)

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
