package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/hotparam/pipeline/internal/operator/admin"
)

type clientsAnswer struct {
	At      time.Time
	Clients []admin.DeniedClient
}

func (c *adminFlags) fetchDeniedClients(ctx context.Context) (a clientsAnswer, err error) {
	_, err = c.askAdmin(ctx, question{path: "/v1/clients"}, &a)
	return a, err
}

// showClients draws the clients that are denied, as showKeys draws keys.
func (t *top) showClients(a *clientsAnswer, err error) {
	if err != nil || !t.isClientView || t.traced != "" {
		if err != nil {
			t.head.SetText("no answer, tried again: " + printableText(err.Error()))
		}
		return
	}
	t.head.SetText(fmt.Sprintf("%s  %s denied, by a sample of the last minute; c shows keys\n",
		a.At.Local().Format("15:04:05 MST"), formatCount(len(a.Clients), "client is", "clients are")))
	row, selected := t.clearTable()
	t.drawRow(0, tcell.AttrBold, "CLIENT", "DENIED/S", "WHY", "CLASS", "HELD", "ASKS FOR")
	for i := range a.Clients {
		c := &a.Clients[i]
		why, held, asks := "", "", ""
		if len(c.Reasons) > 0 {
			why = c.Reasons[0].Name
		}
		if c.Override != nil {
			held = describeEffect(&c.Override.Override)
		}
		if len(c.Keys) > 0 {
			asks = string(c.Keys[0].Key)
		}
		t.targets, t.clients = append(t.targets, c.Client), append(t.clients, c.Client)
		t.drawRow(len(t.targets), 0, c.Client, formatRate(&c.Denied), why, c.Class, held, asks)
	}
	t.restoreSelection(row, selected)
}

// traceClient makes all limiters record the requests of a client, and shows the record from now on.
func (t *top) traceClient(client string) {
	if client == "" {
		t.foot.SetText("no client of it is known; c shows the clients that are denied")
		return
	}
	t.showResult(func(ctx context.Context, out *bytes.Buffer) error {
		if err := t.beginTrace(ctx, client); err != nil {
			return err
		}
		t.traced = client
		t.clearTable()
		fmt.Fprintf(out, "tracing %s; t or c goes back", client)
		return nil
	})
}

// showTrace draws the requests of the traced client.
func (t *top) showTrace(client string, a *admin.Client, err error) {
	if err != nil || t.traced != client {
		if err != nil {
			t.head.SetText("no answer, tried again: " + printableText(err.Error()))
		}
		return
	}
	row, _ := t.clearTable()
	t.drawRow(0, tcell.AttrBold, "KEY", "VERDICT", "WHY", "REQUESTS", "LAST")
	if a.Trace == nil {
		t.head.SetText(printableText(client) +
			": no limiter reports of it; a trace ends after a minute, t begins another\n")
		return
	}
	t.head.SetText(fmt.Sprintf("%s: %d requests, by %s, until %s\n", printableText(client), a.Trace.Requests,
		formatCount(a.Trace.Limiters, "limiter", "limiters"), a.Trace.Until.Local().Format("15:04:05 MST")))
	for _, r := range a.Trace.Rows {
		t.targets, t.clients = append(t.targets, client), append(t.clients, client)
		t.drawRow(len(t.targets), 0, traceCells(&r)...)
	}
	t.table.Select(max(min(row, len(t.targets)), 1), 0)
}

func (t *top) handleKey(e *tcell.EventKey) *tcell.EventKey {
	row, _ := t.table.GetSelection()
	key := t.targetAt(row)
	switch e.Rune() {
	case 'q':
		t.app.Stop()
	case 's':
		t.Sort = topOrders[(slices.Index(topOrders, t.Sort)+1)%len(topOrders)]
		t.foot.SetText("sorted by " + t.Sort)
	case 'p':
		t.paused = !t.paused
		t.foot.SetText(map[bool]string{true: "paused; p goes on", false: topHelp}[t.paused])
	case '?':
		t.root.SwitchToPage("?")
	case 'c', 't':
		switch {
		case t.traced != "":
			t.traced = ""
			t.foot.SetText(topHelp)
			t.clearTable()
		case e.Rune() == 'c':
			t.isClientView = !t.isClientView
			t.clearTable()
		case key != "":
			t.traceClient(t.clients[row-1])
		}
	case '/':
		t.readInput("find: ", t.Find, func(text string) { t.Find = text })
	case 'l', 'b', 'e', 'u':
		if key != "" {
			t.handleAction(e.Rune(), key)
		}
	default:
		return e
	}
	return nil
}

// targetField returns the field of an override that names the target of a row.
func (t *top) targetField() string {
	if t.isClientView || t.traced != "" {
		return "client"
	}
	return "key"
}

// handleAction changes the override of a key or a client. Limits, blocks and exemptions that it sets end after 15
// minutes.
func (t *top) handleAction(what rune, key string) {
	switch what {
	case 'l':
		t.readInput("requests a second for 15m: ", "", func(text string) {
			rate, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.foot.SetText(printableText(text) + " is not a number")
				return
			}
			t.setOverride(map[string]any{t.targetField(): key, "rate": rate, "for": "15m"}, nil)
		})
	case 'b':
		t.setOverride(map[string]any{t.targetField(): key, "action": "block", "for": "15m"}, nil)
	case 'e':
		t.setOverride(map[string]any{t.targetField(): key, "action": "exempt", "for": "15m"}, nil)
	case 'u':
		t.showResult(func(ctx context.Context, out *bytes.Buffer) error {
			list, _, err := t.fetchOverrides(ctx)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(list, func(o listedOverride) bool {
				return (o.Key == key || o.Client == key) && o.Source != "file"
			})
			did, query, header := t.lastSaved[key], url.Values{"author": {authorOf("")}}, http.Header(nil)
			switch { // a change that another person has made since is kept
			case did.Change != 0:
				query.Set("revision", strconv.FormatInt(did.Change, 10))
			case i >= 0:
				did.ID, header = list[i].ID, ifMatchHeader(list[i].Version)
			default:
				return fmt.Errorf("%s has no override", key)
			}
			delete(t.lastSaved, key)
			_, err = t.undoOverride(ctx, &changeLog{lines: out, warnings: out}, did.ID, query, header)
			return err
		})
	}
}

func (t *top) setOverride(body map[string]any, word url.Values) {
	body["author"], body["reason"] = authorOf(""), "hotparam top"
	t.showResult(func(ctx context.Context, out *bytes.Buffer) error {
		log := &changeLog{lines: out, warnings: out}
		saved, err := t.putOverride(ctx, log, overridePut{body: body, query: word})
		if u, ok := errors.AsType[*unconfirmed](err); ok {
			t.readInput(tview.Escape(printableText(u.detail))+" - type yes: ", "", func(text string) {
				if text == "yes" {
					t.setOverride(body, confirmed)
				}
			})
			return nil
		}
		if err == nil {
			t.lastSaved[fmt.Sprint(body[t.targetField()])] = saved
		}
		return err
	})
}

func (t *top) showResult(do func(context.Context, *bytes.Buffer) error) {
	var out bytes.Buffer
	if err := do(context.Background(), &out); err != nil { // askAdmin bounds the time
		t.foot.SetText(printableText(err.Error()))
		return
	}
	t.foot.SetText(printableText(strings.TrimSpace(strings.ReplaceAll(out.String(), "\n", "  "))))
}

func (t *top) readInput(label, text string, then func(string)) {
	t.onEntry = then
	t.input.SetLabel(label).SetText(text)
	t.pages.SwitchToPage("input")
	t.app.SetFocus(t.input)
}

// finishInput ends the input. Enter accepts the text, and any other key discards it.
func (t *top) finishInput(key tcell.Key) {
	t.foot.SetText(topHelp)
	t.pages.SwitchToPage("help")
	t.app.SetFocus(t.table)
	if key == tcell.KeyEnter {
		t.onEntry(t.input.GetText())
	}
}
