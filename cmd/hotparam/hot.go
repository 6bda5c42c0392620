package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/alecthomas/kong"
)

// hotCmd groups what is done with hot keys.
type hotCmd struct {
	Reset hotResetCmd `cmd:"" help:"Have all limiters forget what a key, or a client, has used of its limits."`
}

// hotResetCmd resets a key or a client.
type hotResetCmd struct {
	adminFlags
	Key    string `arg:"" optional:"" help:"Key, such as 'topic?id=42'."`
	Client string `placeholder:"CLIENT" help:"Client in place of a key: an address, or a name."`
}

// Run is called by kong.
func (c *hotResetCmd) Run(ctx context.Context, k *kong.Kong) error {
	path := "/v1/keys/" + url.PathEscape(c.Key) + "/reset"
	switch {
	case (c.Key == "") == (c.Client == ""):
		return usage("hot reset: want a key or --client")
	case c.Client != "":
		path = "/v1/clients/" + url.PathEscape(c.Client) + "/reset"
	}
	var of struct{ Key, Client string }
	if _, err := c.ask(ctx, question{method: http.MethodPost, path: path}, &of); err != nil {
		return fmt.Errorf("hot reset: %w", err)
	}
	fmt.Fprintf(k.Stdout, "reset: %s\n", printable(of.Key+of.Client))
	return nil
}
