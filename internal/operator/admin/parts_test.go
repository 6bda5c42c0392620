package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// A part that fails without keeping requests from being answered is named by /readyz, and leaves the program ready.
func TestReady_NamesFailingPart(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("filestore: overrides.json was not written: %w", syscall.ENOSPC)
	s, w := loadSchemas(t), newWorld(t, func(c *Config) {
		c.Ready = map[string]func(context.Context) error{"running": func(context.Context) error { return nil }}
		c.Parts = map[string]func(context.Context) error{"state": func(context.Context) error { return full }}
	})
	rec := w.ask(http.MethodGet, "/readyz", "")
	if s.answer(t, rec, 200, "Ready"); !strings.Contains(rec.Body.String(), `"ready":true`) ||
		!strings.Contains(rec.Body.String(), `"error":"filestore: overrides.json was not written: no space`) {
		t.Error(rec.Body)
	}
	w.store.fail(full)
	rec = w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=42", "action": "block"}`)
	if s.answer(t, rec, 503, "Problem"); !strings.Contains(rec.Body.String(), "no space") ||
		!strings.Contains(rec.Body.String(), "free space on that disk") {
		t.Error(rec.Body)
	}
}

// TestAudit_IsReadInParts states that the changes before a revision can be read, of all overrides and of one override.
func TestAudit_IsReadInParts(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, nil)
	for i := range 6 {
		w.ask(http.MethodPut, fmt.Sprint("/v1/overrides/o-", i%2),
			fmt.Sprintf(`{"key": "topic?id=%d", "rate": %d}`, i%2, i+1))
	}
	for query, want := range map[string]string{"": "6 5 4 3 2 1 ", "&id=o-1": "6 4 2 "} {
		got, before := "", ""
		for {
			rec := w.ask(http.MethodGet, "/v1/audit?limit=2"+query+before, "")
			s.answer(t, rec, 200, "Audit")
			var a struct{ Changes []rules.Change }
			decode(t, rec.Body.Bytes(), &a)
			if len(a.Changes) == 0 {
				break
			}
			for _, c := range a.Changes {
				got += fmt.Sprint(c.After.Rate, " ")
				before = fmt.Sprint("&before=", c.Revision)
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/audit?before=x", ""), 400, "Problem")
}

// Every route that names a key or a client in its path can also have it in the query, where no gateway decodes it, and
// the response names the requested key.
func TestGetKey_ReadsKeyFromQuery(t *testing.T) {
	t.Parallel()
	var told []report.Command
	s, w := loadSchemas(t), newWorld(t, func(c *Config) { c.Command = commands(&told) })
	for _, key := range []string{"/status?x=1", "topic?id=a%2Fb", "topic?id=a+b", "topic?id=a%26b", "/"} {
		query := "key=" + strings.NewReplacer("%", "%25", "?", "%3F", "/", "%2F", "&", "%26", "+", "%2B").Replace(key)
		rec := w.ask(http.MethodGet, "/v1/key?"+query, "")
		s.answer(t, rec, 200, "Key")
		var a struct{ Key, Asked string }
		if decode(t, rec.Body.Bytes(), &a); a.Asked != key {
			t.Errorf("%s: asked %q, key %q", query, a.Asked, a.Key)
		}
		s.answer(t, w.ask(http.MethodGet, "/v1/key/seconds?"+query+"&since=1", ""), 200, "Seconds")
		s.answer(t, w.ask(http.MethodGet, "/v1/key/what-if?rate=5&"+query, ""), 200, "WhatIf")
		told = nil
		s.answer(t, w.ask(http.MethodPost, "/v1/key/reset?"+query, ""), 200, "Reset")
		s.answer(t, w.ask(http.MethodPost, "/v1/key/purge?"+query, ""), 200, "Purged")
		if len(told) != 2 || string(told[0].Key) != a.Key || told[0].Action != report.CommandReset ||
			string(told[1].Key) != a.Key || told[1].Action != report.CommandPurge {
			t.Errorf("%s: %+v", query, told)
		}
		if rec := w.ask(http.MethodGet, "/key?"+query, ""); rec.Code != 200 ||
			!strings.Contains(rec.Body.String(), `="./assets/`) {
			t.Errorf("the page of %s: %d", query, rec.Code)
		}
	}
	rec := w.ask(http.MethodGet, "/v1/client?client=10.0.0.0%2F8", "")
	if s.answer(t, rec, 200, "Client"); !strings.Contains(rec.Body.String(), `"asked":"10.0.0.0/8"`) {
		t.Error(rec.Body)
	}
	told = nil
	s.answer(t, w.ask(http.MethodPost, "/v1/client/trace?client=10.0.0.0%2F8", ""), 200, "Reset")
	s.answer(t, w.ask(http.MethodPost, "/v1/client/reset?client=2001:db8::%2F64", ""), 200, "Reset")
	if len(told) != 2 || told[0].Client.String() != "10.0.0.0/8" || told[1].Client.String() != "2001:db8::" {
		t.Errorf("%+v", told)
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/key", ""), 400, "Problem")
	s.answer(t, w.ask(http.MethodGet, "/v1/client", ""), 400, "Problem")
}
