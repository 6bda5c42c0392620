package main

import (
	"cmp"
	"context"
	"errors"
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
	outputFlags
	File  string `arg:"" help:"YAML or JSON with a list overrides, in the form of ls -o yaml; - is standard input."`
	Prune bool   `help:"Remove overrides that are not in the file."`
}

type overrideDiffCmd struct{ overrideFile }

func (c *overrideDiffCmd) Run(ctx context.Context, k *kong.Kong) error {
	put, gone, err := c.planChanges(ctx)
	if err != nil {
		return err
	}
	for i := range gone {
		put = append(put, overrideChange{before: &gone[i]})
	}
	plan := make([]plannedChange, len(put))
	for i, p := range put {
		if plan[i].Before = p.before; p.after != nil {
			after := p.after.requestBody(p.after.Author)
			plan[i].After = &after
		}
	}
	return c.Print(k.Stdout, map[string]any{"changes": plan}, func(out io.Writer) error {
		for _, p := range put {
			if p.before != nil {
				fmt.Fprintf(out, "- %s\n", p.before.describeOverride())
			}
			if p.after != nil {
				fmt.Fprintf(out, "+ %s\n", p.after.describeOverride())
			}
		}
		return nil
	})
}

// plannedChange is an override as it is and as the file would have it. Without Before the override would be new,
// without After it would be removed.
type plannedChange struct {
	Before *listedOverride `json:"before,omitempty"`
	After  *overrideBody   `json:"after,omitempty"`
}

func (o *listedOverride) describeOverride() string {
	until := formatEnd(&o.Override)
	if o.For > 0 {
		until = o.For.String() + " from now"
	}
	text := fmt.Sprintf("%s: %s, until %s", o.Target(), describeEffect(&o.Override), until)
	if !o.Schedule.IsZero() {
		text += ", " + o.Schedule.String()
	}
	return printableText(text)
}

type overrideApplyCmd struct {
	overrideFile
	waitFlags
	confirmFlags
	Force  bool   `help:"Also replace overrides that were changed after the file was written."`
	Author string `help:"Author for the audit; default: the login name."`
}

func (c *overrideApplyCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.logChanges(k, func(log *changeLog) error { return c.applyAll(ctx, k, log) })
}

func (c *overrideApplyCmd) applyAll(ctx context.Context, k *kong.Kong, log *changeLog) error {
	put, gone, err := c.planChanges(ctx)
	if err != nil {
		return err
	}
	author := authorOf(c.Author)
	var failed []error
	ended := 0
	for _, p := range put {
		if o := &p.after.Override; p.after.For == 0 && o.Expired(time.Now()) {
			// It holds nowhere any longer, and does not prevent the others.
			fmt.Fprintf(k.Stderr, "%s: %s was left out: it ended at %s\n", name, printableText(o.Target().String()),
				formatEnd(o))
			ended++
		} else if err := c.apply(ctx, k, log, p, author); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", printableText(o.Target().String()), err))
		}
	}
	for i := range gone {
		if err := c.removeOverride(ctx, log, gone[i].ID, author, ifMatchHeader(gone[i].Version)); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", printableText(gone[i].Target().String()), err))
		}
	}
	switch all := len(put) + len(gone); {
	case all == 0:
		log.logLine("nothing to change")
	case len(failed) > 0:
		return errors.Join(append(failed, fmt.Errorf("%d of %d changes were made", all-ended-len(failed), all))...)
	}
	return c.waitForAll(ctx, log, c.Wait)
}

// apply sets one override of the file.
func (c *overrideApplyCmd) apply(ctx context.Context, k *kong.Kong, log *changeLog, p overrideChange,
	author string) error {
	o := p.after
	version := int64(0)
	if p.before != nil {
		version = p.before.Version
		if !c.Force && o.Version != 0 && o.Version != version {
			return errors.New("it was changed since the file was written; look at override diff, and add --force to " +
				"replace it")
		}
	}
	return c.changeConfirmed(k, func(word url.Values) error {
		_, err := c.putOverride(ctx, log, overridePut{o.ID, o.requestBody(author), ifMatchHeader(version), word})
		return err
	})
}

// overrideBody is the body of a request to set an override. It lacks the fields that the store sets.
type overrideBody struct {
	rules.Override
	ID      string `json:"id,omitempty"`
	Created string `json:"created,omitempty"`
	For     string `json:"for,omitempty"`
}

func (o *listedOverride) requestBody(author string) overrideBody {
	body := overrideBody{Override: o.Override}
	if body.Author = author; o.For > 0 {
		body.For = o.For.String()
	}
	return body
}

// overrideChange is an override to set, and the stored override that it replaces, or nil.
type overrideChange struct{ before, after *listedOverride }

// planChanges compares the overrides of a file with the stored ones. It leaves out overrides of the rules file, because
// they cannot be changed in the store.
func (c *overrideFile) planChanges(ctx context.Context) (put []overrideChange, gone []listedOverride, err error) {
	want, err := readOverrides(c.File)
	if err != nil {
		return nil, nil, err
	}
	have, _, err := c.fetchOverrides(ctx)
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

// sameOverride compares the actions, limits, reasons and ends of two overrides, but not their authors and creation.
func sameOverride(a, b *rules.Override) bool {
	return a.Action == b.Action && a.Rate == b.Rate && a.Burst == b.Burst && a.Reason == b.Reason &&
		a.Until.Truncate(time.Millisecond).Equal(b.Until.Truncate(time.Millisecond))
}

// readOverrides reads a file of overrides. An unknown field is an error.
func readOverrides(path string) ([]listedOverride, error) {
	text, err := readText(path)
	if err != nil {
		return nil, err
	}
	read, err := rules.ReadOverrides(path, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w; the file must be a list of overrides, as override ls -o yaml prints it", err)
	}
	list := make([]listedOverride, len(read))
	for i, o := range read {
		list[i] = listedOverride{Override: o.Override, For: o.For, Version: o.Seen}
	}
	return list, nil
}

type auditCmd struct {
	adminFlags
	outputFlags
	ID    string `arg:"" optional:"" help:"ID of an override; default: the changes of all."`
	Limit int    `default:"50" help:"Maximum number of changes."`
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
	answer, err := c.askAdmin(ctx, question{path: "/v1/audit", query: query}, &a)
	if err != nil {
		return err
	}
	if a.Trouble != "" {
		printWarnings(k.Stderr, []string{a.Trouble})
	}
	return c.printTable(k.Stdout, answer, func(t io.Writer) {
		writeRow(t, "REVISION", "TIME", "BY", "WHAT", "ID", "FOR", "EFFECT", "REASON")
		for i := range a.Changes {
			change := &a.Changes[i]
			of, target, does := cmp.Or(change.After, change.Before), change.Of, ""
			if of != nil {
				target, does = of.Target().String(), "removed"
			}
			if change.After != nil {
				does = describeEffect(of) + ", until " + formatEnd(of)
			}
			writeRow(t, strconv.FormatInt(change.Revision, 10), change.At.UTC().Format(time.RFC3339), change.Author,
				change.Action, change.ID, target, does, cmp.Or(of, &rules.Override{}).Reason)
		}
		for i := range a.Rules {
			r := &a.Rules[i]
			writeRow(t, strconv.FormatInt(r.Version, 10), r.At.UTC().Format(time.RFC3339), r.Author, "push",
				"", "rules", "", r.Reason)
		}
	})
}

type historyCmd struct {
	Purge historyPurgeCmd `cmd:"" help:"Remove the history of a key for good."`
}

type historyPurgeCmd struct {
	adminFlags
	outputFlags
	Key    string `arg:"" help:"The whole key, such as 'topic?id=42'."`
	Author string `help:"Author for the history; default: the login name."`
}

func (c *historyPurgeCmd) Run(ctx context.Context, k *kong.Kong) error {
	var a struct{ Rows int64 }
	q := question{method: http.MethodDelete, path: "/v1/history",
		query: url.Values{"key": {c.Key}, "author": {authorOf(c.Author)}}}
	answer, err := c.askAdmin(ctx, q, &a)
	if err != nil {
		return err
	}
	return c.printLine(k.Stdout, answer, "%d minutes, hours, spans and events were removed", a.Rows)
}
