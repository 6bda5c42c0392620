package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/rules"
)

// overrideEnforceCmd has an override that was tried deny from now on.
type overrideEnforceCmd struct {
	adminFlags
	waitFlags
	ID     string `arg:"" help:"ID, as ls shows it."`
	Author string `help:"Who, for the audit; default: who is logged in."`
}

// Run is called by kong.
func (c *overrideEnforceCmd) Run(ctx context.Context, k *kong.Kong) error {
	var a struct {
		rules.Override
		Revision int64
		Warnings []string
	}
	_, err := c.ask(ctx, question{
		method: http.MethodPost, path: "/v1/overrides/" + url.PathEscape(c.ID) + "/enforce",
		query: url.Values{"author": {authorOf(c.Author)}},
	}, &a)
	if err != nil {
		return err
	}
	fmt.Fprintf(k.Stdout, "%s: enforced; %s, %s, until %s\n",
		printable(a.ID), printable(a.Target().String()), effect(&a.Override), ending(&a.Override))
	for _, w := range a.Warnings {
		fmt.Fprintf(k.Stderr, "%s: %s\n", name, printable(w))
	}
	return c.waitFor(ctx, k, c.Wait, a.Revision)
}
