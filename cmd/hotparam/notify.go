package main

import (
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

	"github.com/alecthomas/kong"
)

// notifyCmd groups what is done with webhooks.
type notifyCmd struct {
	Test notifyTestCmd `cmd:"" help:"Send a test event to the webhooks of a running program, and tell how each answered."`
	Ls   notifyLsCmd   `cmd:"" help:"List the webhooks and how they do."`
}

// notifyTestCmd tries webhooks.
type notifyTestCmd struct {
	adminFlags
	outputFlags
	Name   string `arg:"" optional:"" help:"Only this webhook."`
	Author string `help:"Who asks; default: who is logged in."`
}

// Run is called by kong.
func (c *notifyTestCmd) Run(ctx context.Context, k *kong.Kong) error {
	query := url.Values{"author": {authorOf(c.Author)}}
	if c.Name != "" {
		query.Set("name", c.Name)
	}
	c.Timeout = max(c.Timeout, time.Minute) // a webhook may take that long
	var answer json.RawMessage
	q := question{method: http.MethodPost, path: "/v1/notifications/test", query: query}
	if _, err := c.ask(ctx, q, &answer); err != nil {
		return err
	}
	var a struct {
		Results []struct {
			Name   string
			OK     bool
			Error  string
			TookMS float64 `json:"took_ms"`
		}
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	failed := false
	err := c.print(k, answer, func(t io.Writer) error {
		row(t, "WEBHOOK", "RESULT", "TOOK")
		for _, r := range a.Results {
			result := "ok"
			if !r.OK {
				result = r.Error
			}
			row(t, r.Name, result, fmt.Sprintf("%.0f ms", r.TookMS))
		}
		return nil
	})
	for _, r := range a.Results {
		failed = failed || !r.OK
	}
	if err == nil && failed {
		err = errors.New("not every webhook took the test event")
	}
	return err
}

// notifyLsCmd lists webhooks.
type notifyLsCmd struct {
	adminFlags
	outputFlags
}

// Run is called by kong.
func (c *notifyLsCmd) Run(ctx context.Context, k *kong.Kong) error {
	var answer json.RawMessage
	if _, err := c.ask(ctx, question{method: http.MethodGet, path: "/v1/notifications"}, &answer); err != nil {
		return err
	}
	var a struct {
		Webhooks []struct {
			Name, Format          string
			Events                []string
			Sent, Failed, Dropped uint64
			Queued                int
			Error                 string
		}
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	return c.print(k, answer, func(t io.Writer) error {
		row(t, "WEBHOOK", "FORMAT", "EVENTS", "SENT", "LOST", "QUEUED", "ERROR")
		for _, w := range a.Webhooks {
			row(t, w.Name, w.Format, strings.Join(w.Events, ","), strconv.FormatUint(w.Sent, 10),
				strconv.FormatUint(w.Failed+w.Dropped, 10), strconv.Itoa(w.Queued), w.Error)
		}
		return nil
	})
}
