package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/rules"
)

type overrideCmd struct {
	Ls      overrideLsCmd      `cmd:"" help:"List the overrides that have not ended."`
	Set     overrideSetCmd     `cmd:"" help:"Limit, exempt, block, watch or cache a key, a resource, a client, a network or a class."`
	Rm      overrideRmCmd      `cmd:"" help:"Remove overrides."`
	Enforce overrideEnforceCmd `cmd:"" help:"Enforce an override that is in shadow mode."`
	Undo    overrideUndoCmd    `cmd:"" help:"Undo the last change of an override."`
	Diff    overrideDiffCmd    `cmd:"" help:"Print the changes that apply would make."`
	Apply   overrideApplyCmd   `cmd:"" help:"Replace the overrides by the overrides of a file, in the form of ls -o yaml."`
}

// listedOverride is an override as an admin listener or a file for apply describes it.
type listedOverride struct {
	rules.Override
	For    time.Duration `json:"-"` // only in files, in place of until
	Source string        `json:"source,omitempty"`
	// Version is sent with a change of the override, so that a change by another person is not lost.
	Version int64 `json:"version,omitempty"`
	// Hits, WouldDeny and Pace count the requests that an override in shadow mode met and would have denied. They are
	// nil if unknown.
	Hits      *uint64  `json:"hits,omitempty"`
	WouldDeny *uint64  `json:"would_deny,omitempty"`
	Pace      *float64 `json:"would_deny_per_second,omitempty"`
}

func (o *listedOverride) wouldDeny() string {
	if o.Hits == nil || o.WouldDeny == nil || o.Pace == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d, %s/s", *o.WouldDeny, *o.Hits, strconv.FormatFloat(*o.Pace, 'f', -1, 64))
}

func describeEffect(o *rules.Override) string {
	mode := ""
	if o.InShadow() {
		mode = "in shadow: "
	}
	if o.Action != rules.ActionLimit && o.Action != "" {
		return mode + string(o.Action)
	}
	text := mode + strconv.FormatFloat(o.Rate, 'f', -1, 64) + "/s"
	if o.Burst > 0 {
		text += ", burst " + strconv.FormatInt(o.Burst, 10)
	}
	return text
}

func formatEnd(o *rules.Override) string {
	if o.Until.IsZero() {
		return "removed"
	}
	return o.Until.UTC().Format(time.RFC3339)
}

func (c *adminFlags) fetchOverrides(ctx context.Context) ([]listedOverride, answer, error) {
	var a struct {
		Overrides []listedOverride
		Trouble   string
	}
	got, err := c.askAdmin(ctx, question{path: "/v1/overrides"}, &a)
	if a.Trouble != "" {
		printWarnings(os.Stderr, []string{a.Trouble})
	}
	return a.Overrides, got, err
}

type overrideLsCmd struct {
	adminFlags
	outputFlags
}

func (c *overrideLsCmd) Run(ctx context.Context, k *kong.Kong) error {
	list, answer, err := c.fetchOverrides(ctx)
	if err != nil {
		return err
	}
	return c.printTable(k.Stdout, answer, func(t io.Writer) {
		writeRow(t, "ID", "FOR", "EFFECT", "WOULD DENY", "UNTIL", "BY", "WRITTEN", "REASON")
		for i := range list {
			o := &list[i]
			writeRow(t, o.ID, o.Target().String(), describeEffect(&o.Override), o.wouldDeny(), formatEnd(&o.Override),
				o.Author, o.Source, o.Reason)
		}
	})
}

// versionFlags holds the flag with which a change is made only if the override still has the version that its author
// has seen.
type versionFlags struct {
	On *int64 `placeholder:"VERSION" help:"Refuse unless the override has this version, see ls -o json; 0: unless the override does not exist."`
}

func (o versionFlags) versionHeader() http.Header {
	if o.On == nil {
		return http.Header{}
	}
	return ifMatchHeader(*o.On)
}

func ifMatchHeader(version int64) http.Header {
	return http.Header{"If-Match": {strconv.Quote(strconv.FormatInt(version, 10))}}
}

type overrideSetCmd struct {
	adminFlags
	outputFlags
	waitFlags
	confirmFlags
	Key      string   `arg:"" optional:"" help:"Key, such as 'topic?id=42', or a pattern with *."`
	Resource string   `help:"All keys of a rule."`
	Client   string   `placeholder:"ADDRESS" help:"One client."`
	CIDR     string   `name:"cidr" placeholder:"NETWORK" help:"Each client of a network."`
	Class    string   `help:"Each client of a class."`
	Rate     *float64 `placeholder:"N" help:"Limit in requests per second."`
	Burst    *int64   `placeholder:"N" help:"Requests that may come at once."`
	Action   string   `enum:"limit,exempt,block,shadow,cache" default:"limit" help:"Effect: ${enum}."`
	Mode     string   `enum:"enforce,shadow" default:"enforce" help:"Mode; shadow denies no request and counts would-be denials."`
	For      string   `placeholder:"DURATION" help:"Lifetime, such as 15m; default: until it is removed."`
	Until    string   `placeholder:"TIME" help:"End, such as 2026-12-01T00:00:00Z."`
	Reason   string   `help:"Reason, for the audit."`
	Author   string   `help:"Author for the audit; default: the login name. The name of a token takes precedence."`
	ID       string   `name:"id" help:"ID; default: made from the target."`
	versionFlags
}

func (c *overrideSetCmd) Run(ctx context.Context, k *kong.Kong) error {
	targets := 0
	for _, text := range []string{c.Key, c.Resource, c.Client, c.CIDR, c.Class} {
		if text != "" {
			targets++
		}
	}
	if targets != 1 {
		return config.Usage("override set: name one of a key, --resource, --client, --cidr, --class")
	}
	body := map[string]any{"action": c.Action, "mode": c.Mode}
	for name, text := range map[string]string{
		"key": c.Key, "resource": c.Resource, "client": c.Client, "cidr": c.CIDR, "class": c.Class, "for": c.For,
		"until": c.Until, "reason": c.Reason, "author": authorOf(c.Author),
	} {
		if text != "" {
			body[name] = text
		}
	}
	if c.Rate != nil { // 0 is sent too, so that the listener can reject it
		body["rate"] = *c.Rate
	}
	if c.Burst != nil {
		body["burst"] = *c.Burst
	}
	return c.logChanges(k, func(log *changeLog) error {
		var saved savedOverride
		if err := c.changeConfirmed(k, func(word url.Values) (err error) {
			saved, err = c.putOverride(ctx, log, overridePut{c.ID, body, c.versionHeader(), word})
			return err
		}); err != nil {
			return err
		}
		return c.waitFor(ctx, log, c.Wait, saved.Revision)
	})
}

// overridePut is an override to set, under an ID if it has one.
type overridePut struct {
	id     string
	body   any
	header http.Header
	query  url.Values
}

func (c *adminFlags) putOverride(ctx context.Context, log *changeLog, p overridePut) (savedOverride, error) {
	text, err := json.Marshal(p.body)
	if err != nil {
		return savedOverride{}, err
	}
	path := "/v1/overrides"
	if p.id != "" {
		path += "/" + url.PathEscape(p.id)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	maps.Copy(header, p.header)
	return c.changeOverride(ctx, log, "set", question{
		method: http.MethodPut, path: path, query: p.query, body: string(text), header: header,
	})
}

// savedOverride is an override after a change. Limiters have the change from Revision on. Change is its number in the
// audit, by which the change is undone.
type savedOverride struct {
	rules.Override
	Revision, Change int64
	Warnings         []string
}

// changeOverride requests a change whose answer is an override, and logs the override and the warnings about it.
func (c *adminFlags) changeOverride(ctx context.Context, log *changeLog, did string,
	q question) (a savedOverride, err error) {
	if _, err = c.askAdmin(ctx, q, &a); err != nil {
		return a, err
	}
	log.add(madeChange{ID: a.ID, Did: did, Override: &a.Override, Revision: a.Revision, Change: a.Change,
		Warnings: a.Warnings})
	return a, nil
}

type overrideRmCmd struct {
	adminFlags
	outputFlags
	waitFlags
	Author string   `help:"Author for the audit; default: the login name."`
	IDs    []string `arg:"" name:"id" help:"IDs, see ls."`
	versionFlags
}

func (c *overrideRmCmd) Run(ctx context.Context, k *kong.Kong) error {
	if c.On != nil && len(c.IDs) > 1 {
		return config.Usage("override rm: --on is for one override")
	}
	return c.logChanges(k, func(log *changeLog) error {
		for _, id := range c.IDs {
			if err := c.removeOverride(ctx, log, id, authorOf(c.Author), c.versionHeader()); err != nil {
				return err
			}
		}
		return c.waitForAll(ctx, log, c.Wait)
	})
}

func (c *adminFlags) removeOverride(ctx context.Context, log *changeLog, id, author string, header http.Header) error {
	_, err := c.askAdmin(ctx, question{
		method: http.MethodDelete, path: "/v1/overrides/" + url.PathEscape(id), query: url.Values{"author": {author}},
		header: header,
	}, nil)
	if err == nil {
		log.add(madeChange{ID: id, Did: "removed"})
	}
	return err
}

type overrideEnforceCmd struct {
	adminFlags
	outputFlags
	waitFlags
	confirmFlags
	ID     string `arg:"" help:"ID, see ls."`
	Author string `help:"Author for the audit; default: the login name."`
	versionFlags
}

func (c *overrideEnforceCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.logChanges(k, func(log *changeLog) error {
		var saved savedOverride
		if err := c.changeConfirmed(k, func(word url.Values) (err error) {
			saved, err = c.changeOverride(ctx, log, "enforced", question{
				method: http.MethodPost, path: "/v1/overrides/" + url.PathEscape(c.ID) + "/enforce",
				query: mergeQueries(url.Values{"author": {authorOf(c.Author)}}, word), header: c.versionHeader(),
			})
			return err
		}); err != nil {
			return err
		}
		return c.waitFor(ctx, log, c.Wait, saved.Revision)
	})
}
