package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/wait"
)

type traceCmd struct {
	adminFlags
	outputFlags
	For    time.Duration `default:"10s" help:"Time to record before the output; up to 50s."`
	Client string        `arg:"" help:"An address, a network such as 203.0.113.0/24, or the name of a client."`
}

// Run makes all limiters record the requests of the client, waits, and prints the record.
func (c *traceCmd) Run(ctx context.Context, k *kong.Kong) error {
	const least, most = time.Second, 50 * time.Second // a trace lasts a minute
	if c.For < least || c.For > most {
		return config.Usage("trace: --for %v must be %v to %v", c.For, least, most)
	}
	if err := c.beginTrace(ctx, c.Client); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if !wait.For(ctx, c.For) {
		return ctx.Err()
	}
	a, answer, err := c.fetchClient(ctx, c.Client)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if a.Trace == nil {
		return fmt.Errorf("trace: no limiter has reported of %s yet; try again", printableText(a.Client))
	}
	return c.printTable(k.Stdout, answer, func(t io.Writer) {
		writeRow(t, "KEY", "VERDICT", "WHY", "REQUESTS", "LAST", "READS")
		for _, r := range a.Trace.Rows {
			writeRow(t, append(traceCells(&r), decodedKey(r.Key))...)
		}
		fmt.Fprintf(t, "%s: %d requests, by %s\n", printableText(a.Client), a.Trace.Requests,
			formatCount(a.Trace.Limiters, "limiter", "limiters"))
	})
}

// beginTrace makes all limiters record the requests of a client for a minute.
func (c *adminFlags) beginTrace(ctx context.Context, client string) error {
	_, err := c.askAdmin(ctx, question{method: http.MethodPost, path: "/v1/client/trace",
		query: url.Values{"client": {client}}}, nil)
	return err
}

// fetchClient returns the known facts about a client.
func (c *adminFlags) fetchClient(ctx context.Context, client string) (a admin.Client, raw answer, err error) {
	raw, err = c.askAdmin(ctx, question{path: "/v1/client", query: url.Values{"client": {client}}}, &a)
	if err == nil {
		err = c.checkAsked(client, a.Asked)
	}
	return a, raw, err
}

// checkAsked returns an error if the listener was asked about something else than was sent, because a gateway on the
// way changes addresses. Bytes that are not text are not compared, because JSON cannot carry them. asked is "" if the
// listener does not report it.
func (c *adminFlags) checkAsked(sent, asked string) error {
	if asked == "" || strings.ToValidUTF8(sent, "") == strings.ReplaceAll(asked, "\uFFFD", "") {
		return nil
	}
	return fmt.Errorf("%s was asked about %s, not %s: a gateway on the way changes addresses; ask the listener itself",
		config.Redact(c.Admin), printableText(asked), printableText(sent))
}

// traceCells returns the cells of a row, which counts a client's requests for one key with one verdict.
func traceCells(r *live.TraceRow) []string {
	verdict := "denied"
	if r.Allowed {
		verdict = "allowed"
	}
	return []string{cmp.Or(string(r.Key), "(no rule counts it)"), verdict, r.Reason.String(),
		strconv.FormatUint(r.Requests, 10), r.Last.Local().Format("15:04:05 MST")}
}
