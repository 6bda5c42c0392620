package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/operator/admin"
)

type notifyCmd struct {
	Test notifyTestCmd `cmd:"" help:"Send a test event to the webhooks of a running program, and print their responses."`
	Ls   notifyLsCmd   `cmd:"" help:"List the webhooks and their state."`
}

type notifyTestCmd struct {
	adminFlags
	outputFlags
	Name   string `arg:"" optional:"" help:"Name of one webhook; default: all."`
	Author string `help:"Author of the test; default: the login name."`
}

func (c *notifyTestCmd) Run(ctx context.Context, k *kong.Kong) error {
	query := url.Values{"author": {authorOf(c.Author)}}
	if c.Name != "" {
		query.Set("name", c.Name)
	}
	c.Timeout = max(c.Timeout, time.Minute) // a webhook may take that long
	var a struct{ Results []admin.WebhookTest }
	answer, err := c.askAdmin(ctx, question{method: http.MethodPost, path: "/v1/notifications/test", query: query}, &a)
	if err != nil {
		return err
	}
	err = c.printTable(k.Stdout, answer, func(t io.Writer) {
		writeRow(t, "WEBHOOK", "RESULT", "TOOK")
		for _, r := range a.Results {
			result := "ok"
			if !r.OK {
				result = r.Error
			}
			writeRow(t, r.Name, result, fmt.Sprintf("%.0f ms", r.TookMS))
		}
	})
	if err == nil && slices.ContainsFunc(a.Results, func(r admin.WebhookTest) bool { return !r.OK }) {
		err = errors.New("not every webhook took the test event")
	}
	return err
}

type notifyLsCmd struct {
	adminFlags
	outputFlags
}

func (c *notifyLsCmd) Run(ctx context.Context, k *kong.Kong) error {
	var a struct{ Webhooks []admin.Webhook }
	answer, err := c.askAdmin(ctx, question{path: "/v1/notifications"}, &a)
	if err != nil {
		return err
	}
	return c.printTable(k.Stdout, answer, func(t io.Writer) {
		writeRow(t, "WEBHOOK", "FORMAT", "EVENTS", "SENT", "LOST", "QUEUED", "ERROR")
		for _, w := range a.Webhooks {
			writeRow(t, w.Name, w.Format, strings.Join(w.Events, ","), strconv.FormatUint(w.Sent, 10),
				strconv.FormatUint(w.Failed+w.Dropped, 10), strconv.Itoa(w.Queued), w.Error)
		}
	})
}
