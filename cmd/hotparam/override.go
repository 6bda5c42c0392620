package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/rules"
)

// overrideCmd groups what is done with overrides.
type overrideCmd struct {
	Ls    overrideLsCmd    `cmd:"" help:"List the overrides that have not ended."`
	Set   overrideSetCmd   `cmd:"" help:"Limit, exempt, block, watch or serve a key, a resource, a client, a network or a class."`
	Rm    overrideRmCmd    `cmd:"" help:"Remove overrides."`
	Undo  overrideUndoCmd  `cmd:"" help:"Take back the last change of an override, or a revision and all after it."`
	Diff  overrideDiffCmd  `cmd:"" help:"Tell what apply would change."`
	Apply overrideApplyCmd `cmd:"" help:"Make the overrides those of a file, as ls -o yaml prints it."`
}

// waitFlags let a command end only when its change holds everywhere.
type waitFlags struct {
	Wait time.Duration `placeholder:"10s" help:"Wait until every limiter has the change, at most so long; exit code 1 if one lags."`
}

// listedOverride is an override as an admin listener tells it, or as a file of apply says it.
type listedOverride struct {
	rules.Override
	For    string `json:"for,omitempty"` // of a file: in place of until
	Source string `json:"source,omitempty"`
}

// effect says in a few words what an override does.
func effect(o *rules.Override) string {
	if o.Action != rules.ActionLimit && o.Action != "" {
		return string(o.Action)
	}
	text := strconv.FormatFloat(o.Rate, 'f', -1, 64) + "/s"
	if o.Burst > 0 {
		text += ", burst " + strconv.FormatInt(o.Burst, 10)
	}
	return text
}

// ending says until when an override holds.
func ending(o *rules.Override) string {
	if o.Until.IsZero() {
		return "removed"
	}
	return o.Until.UTC().Format(time.RFC3339)
}

// overrides asks for the list.
func (c *adminFlags) overrides(ctx context.Context) (list []listedOverride, answer json.RawMessage, err error) {
	if _, err = c.ask(ctx, question{method: http.MethodGet, path: "/v1/overrides"}, &answer); err != nil {
		return nil, nil, err
	}
	var a struct{ Overrides []listedOverride }
	if err = json.Unmarshal(answer, &a); err != nil {
		err = fmt.Errorf("%s: the answer is not that of an admin listener: %w", c.Admin, err)
	}
	return a.Overrides, answer, err
}

// overrideLsCmd lists overrides.
type overrideLsCmd struct {
	adminFlags
	outputFlags
}

// Run is called by kong.
func (c *overrideLsCmd) Run(ctx context.Context, k *kong.Kong) error {
	list, answer, err := c.overrides(ctx)
	if err != nil {
		return err
	}
	return c.print(k, answer, func(t io.Writer) error {
		row(t, "ID", "FOR", "EFFECT", "UNTIL", "BY", "WRITTEN", "REASON")
		for i := range list {
			o := &list[i]
			row(t, o.ID, o.Target().String(), effect(&o.Override), ending(&o.Override), o.Author, o.Source, o.Reason)
		}
		return nil
	})
}

// overrideSetCmd sets one override.
type overrideSetCmd struct {
	adminFlags
	waitFlags
	Key      string  `arg:"" optional:"" help:"Key, such as 'topic?id=42', or a pattern with *."`
	Resource string  `help:"All keys of a rule."`
	Client   string  `placeholder:"ADDRESS" help:"One client."`
	CIDR     string  `name:"cidr" placeholder:"NETWORK" help:"Each client of a network."`
	Class    string  `help:"Each client of a class."`
	Rate     float64 `placeholder:"N" help:"Limit to so many requests a second."`
	Burst    int64   `placeholder:"N" help:"So many at once."`
	Action   string  `enum:"limit,exempt,block,shadow,serve" default:"limit" help:"What it does: ${enum}."`
	For      string  `placeholder:"15m" help:"For how long; default: until it is removed."`
	Until    string  `placeholder:"TIME" help:"Until when, such as 2026-12-01T00:00:00Z."`
	Reason   string  `help:"Why, for the audit."`
	Author   string  `help:"Who, for the audit; default: who is logged in. A token with a name stands above it."`
	ID       string  `name:"id" help:"ID of your own."`
}

// Run is called by kong.
func (c *overrideSetCmd) Run(ctx context.Context, k *kong.Kong) error {
	targets := 0
	for _, text := range []string{c.Key, c.Resource, c.Client, c.CIDR, c.Class} {
		if text != "" {
			targets++
		}
	}
	if targets != 1 {
		return usage("override set: want one of a key, --resource, --client, --cidr, --class")
	}
	body := map[string]any{"action": c.Action}
	for name, text := range map[string]string{
		"key": c.Key, "resource": c.Resource, "client": c.Client, "cidr": c.CIDR, "class": c.Class, "for": c.For,
		"until": c.Until, "reason": c.Reason, "author": authorOf(c.Author),
	} {
		if text != "" {
			body[name] = text
		}
	}
	if c.Rate != 0 {
		body["rate"] = c.Rate
	}
	if c.Burst != 0 {
		body["burst"] = c.Burst
	}
	revision, err := c.putOverride(ctx, k, c.ID, body)
	if err != nil {
		return err
	}
	return c.waitFor(ctx, k, c.Wait, revision)
}

// putOverride sets an override and says what holds now.
func (c *adminFlags) putOverride(ctx context.Context, k *kong.Kong, id string, body any) (revision int64, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	path := "/v1/overrides"
	if id != "" {
		path += "/" + url.PathEscape(id)
	}
	var a struct {
		rules.Override
		Revision int64
		Warnings []string
	}
	_, err = c.ask(ctx, question{
		method: http.MethodPut, path: path, body: string(text), header: http.Header{"Content-Type": {"application/json"}},
	}, &a)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(k.Stdout, "%s: %s, %s, until %s\n",
		printable(a.ID), printable(a.Target().String()), effect(&a.Override), ending(&a.Override))
	for _, w := range a.Warnings {
		fmt.Fprintf(k.Stderr, "%s: %s\n", name, printable(w))
	}
	return a.Revision, nil
}

// overrideRmCmd removes overrides.
type overrideRmCmd struct {
	adminFlags
	waitFlags
	Author string   `help:"Who, for the audit; default: who is logged in."`
	IDs    []string `arg:"" name:"id" help:"IDs, as ls shows them."`
}

// Run is called by kong.
func (c *overrideRmCmd) Run(ctx context.Context, k *kong.Kong) error {
	for _, id := range c.IDs {
		if err := c.remove(ctx, k, id, authorOf(c.Author)); err != nil {
			return err
		}
	}
	return c.waitForAll(ctx, k, c.Wait)
}

func (c *adminFlags) remove(ctx context.Context, k *kong.Kong, id, author string) error {
	_, err := c.ask(ctx, question{
		method: http.MethodDelete, path: "/v1/overrides/" + url.PathEscape(id), query: url.Values{"author": {author}},
	}, nil)
	if err == nil {
		fmt.Fprintf(k.Stdout, "%s: removed\n", printable(id))
	}
	return err
}

// overrideUndoCmd takes changes back.
type overrideUndoCmd struct {
	adminFlags
	waitFlags
	ID       string `arg:"" help:"ID, as ls shows it."`
	Revision int64  `placeholder:"N" help:"Take this revision and all after it back; default: the last change."`
	Author   string `help:"Who, for the audit; default: who is logged in."`
}

// Run is called by kong.
func (c *overrideUndoCmd) Run(ctx context.Context, k *kong.Kong) error {
	query := url.Values{"author": {authorOf(c.Author)}}
	if c.Revision != 0 {
		query.Set("revision", strconv.FormatInt(c.Revision, 10))
	}
	var a struct {
		Override *rules.Override
		Revision int64
	}
	_, err := c.ask(ctx, question{
		method: http.MethodPost, path: "/v1/overrides/" + url.PathEscape(c.ID) + "/undo", query: query,
	}, &a)
	if err != nil {
		return err
	}
	if a.Override == nil {
		fmt.Fprintf(k.Stdout, "%s: undone; there is none now\n", printable(c.ID))
	} else {
		fmt.Fprintf(k.Stdout, "%s: undone; %s, %s, until %s\n",
			printable(c.ID), printable(a.Override.Target().String()), effect(a.Override), ending(a.Override))
	}
	return c.waitFor(ctx, k, c.Wait, a.Revision)
}

// waitForAll waits until every limiter has what is stored now.
func (c *adminFlags) waitForAll(ctx context.Context, k *kong.Kong, most time.Duration) error {
	if most <= 0 {
		return nil
	}
	a, err := c.limiters(ctx)
	if err != nil {
		return err
	}
	return c.waitFor(ctx, k, most, a.Revision)
}

// limitersAnswer is what GET /v1/limiters says.
type limitersAnswer struct {
	Revision int64
	Limiters []struct {
		Instance string
		Revision int64
	}
}

func (c *adminFlags) limiters(ctx context.Context) (a limitersAnswer, err error) {
	_, err = c.ask(ctx, question{method: http.MethodGet, path: "/v1/limiters"}, &a)
	return a, err
}

// pollEvery is how often it is asked whether a change has arrived.
const pollEvery = 100 * time.Millisecond

// waitFor waits until no limiter has an older revision, and says which have where that takes too long.
func (c *adminFlags) waitFor(ctx context.Context, k *kong.Kong, most time.Duration, revision int64) error {
	if most <= 0 {
		return nil
	}
	began := time.Now()
	end, poll := time.After(most), time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		a, err := c.limiters(ctx)
		if err != nil {
			return err
		}
		var behind []string
		for _, l := range a.Limiters {
			if l.Revision < revision {
				behind = append(behind, printable(l.Instance))
			}
		}
		if len(behind) == 0 {
			fmt.Fprintf(k.Stdout, "%d limiters have it, after %v\n", len(a.Limiters), time.Since(began).Round(time.Millisecond))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return fmt.Errorf("%d of %d limiters do not have it after %v: %s; it is stored, and they get it when they can",
				len(behind), len(a.Limiters), most, strings.Join(behind, ", "))
		case <-poll.C:
		}
	}
}
