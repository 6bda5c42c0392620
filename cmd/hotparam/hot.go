package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// hotCmd groups what is done with hot keys.
type hotCmd struct {
	Reset hotResetCmd `cmd:"" help:"Have all limiters forget what a key, or a client, has used of its limits."`
}

// adminFlags say which admin listener is asked, and as whom.
type adminFlags struct {
	Admin     string        `default:"http://127.0.0.1:9180" placeholder:"URL" help:"Admin listener of an aggregator, a limiter or hotparam serve."`
	TokenFile string        `name:"token-file" placeholder:"FILE" help:"File that holds its token."`
	Timeout   time.Duration `default:"5s" help:"Longest wait for the answer."`
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
	answer, err := c.post(ctx, path)
	if err != nil {
		return fmt.Errorf("hot reset: %w", err)
	}
	var of struct{ Key, Client string }
	if err := json.Unmarshal(answer, &of); err != nil {
		return fmt.Errorf("hot reset: answer of %s: %w", c.Admin, err)
	}
	fmt.Fprintf(k.Stdout, "reset: %s\n", printable(of.Key+of.Client))
	return nil
}

// post asks for a path and gives the answer, if that is 2xx.
func (c *adminFlags) post(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.Admin, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	if c.TokenFile != "" {
		token, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || res.StatusCode/100 == 2 {
		return body, err
	}
	return nil, fmt.Errorf("%s: %s", res.Status, printable(strings.TrimSpace(string(body))))
}
