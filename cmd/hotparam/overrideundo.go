package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/rules"
)

type overrideUndoCmd struct {
	adminFlags
	outputFlags
	waitFlags
	confirmFlags
	ID       string `arg:"" help:"ID, see ls."`
	Revision int64  `placeholder:"N" help:"Refuse unless this revision, see audit, is still the last change."`
	Author   string `help:"Author for the audit; default: the login name."`
}

func (c *overrideUndoCmd) Run(ctx context.Context, k *kong.Kong) error {
	query := url.Values{"author": {authorOf(c.Author)}}
	if c.Revision != 0 {
		query.Set("revision", strconv.FormatInt(c.Revision, 10))
	}
	return c.logChanges(k, func(log *changeLog) error {
		var revision int64
		if err := c.changeConfirmed(k, func(word url.Values) (err error) {
			revision, err = c.undoOverride(ctx, log, c.ID, mergeQueries(query, word), nil)
			return err
		}); err != nil {
			return err
		}
		return c.waitFor(ctx, log, c.Wait, revision)
	})
}

func (c *adminFlags) undoOverride(ctx context.Context, log *changeLog, id string, query url.Values,
	header http.Header) (revision int64, err error) {
	var a struct {
		Override *rules.Override
		Revision int64
	}
	_, err = c.askAdmin(ctx, question{
		method: http.MethodPost, path: "/v1/overrides/" + url.PathEscape(id) + "/undo", query: query,
		header: header,
	}, &a)
	if err != nil {
		return 0, err
	}
	log.add(madeChange{ID: id, Did: "undone", Override: a.Override, Revision: a.Revision})
	return a.Revision, nil
}
