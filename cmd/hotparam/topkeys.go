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

func (c *adminFlags) deniedClients(ctx context.Context) (a clientsAnswer, err error) {
	_, err = c.ask(ctx, question{path: "/v1/clients"}, &a)
	return a, err
}

// showClients draws the clients that are denied, as show draws keys.
func (t *top) showClients(a *clientsAnswer, err error) {
	if err != nil || !t.who || t.traced != "" {
		if err != nil {
			t.head.SetText("no answer, tried again: " + printable(err.Error()))
		}
		return
	}
	t.head.SetText(fmt.Sprintf("%s  %s denied, by a sample of the last minute; c shows keys\n",
		a.At.Local().Format("15:04:05 MST"), counted(len(a.Clients), "client is", "clients are")))
	row, selected := t.begin()
	t.line(0, tcell.AttrBold, "CLIENT", "DENIED/S", "WHY", "CLASS", "HELD", "ASKS FOR")
	for i := range a.Clients {
		c := &a.Clients[i]
		why, held, asks := "", "", ""
		if len(c.Reasons) > 0 {
			why = c.Reasons[0].Name
		}
		if c.Override != nil {
			held = effect(&c.Override.Override)
		}
		if len(c.Keys) > 0 {
			asks = string(c.Keys[0].Key)
		}
		t.keys, t.by = append(t.keys, c.Client), append(t.by, c.Client)
		t.line(len(t.keys), 0, c.Client, number(&c.Denied), why, c.Class, held, asks)
	}
	t.end(row, selected)
}

// trace makes all limiters record the requests of a client, and shows the record from now on.
func (t *top) trace(client string) {
	if client == "" {
		t.foot.SetText("no client of it is known; c shows the clients that are denied")
		return
	}
	t.say(func(ctx context.Context, out *bytes.Buffer) error {
		if err := t.beginTrace(ctx, client); err != nil {
			return err
		}
		t.traced = client
		t.begin()
		fmt.Fprintf(out, "tracing %s; t or c goes back", client)
		return nil
	})
}

// showTrace draws the requests of the traced client.
func (t *top) showTrace(client string, a *admin.Client, err error) {
	if err != nil || t.traced != client {
		if err != nil {
			t.head.SetText("no answer, tried again: " + printable(err.Error()))
		}
		return
	}
	row, _ := t.begin()
	t.line(0, tcell.AttrBold, "KEY", "VERDICT", "WHY", "REQUESTS", "LAST")
	if a.Trace == nil {
		t.head.SetText(printable(client) + ": no limiter reports of it; a trace ends after a minute, t begins another\n")
		return
	}
	t.head.SetText(fmt.Sprintf("%s: %d requests, by %s, until %s\n", printable(client), a.Trace.Requests,
		counted(a.Trace.Limiters, "limiter", "limiters"), a.Trace.Until.Local().Format("15:04:05 MST")))
	for _, r := range a.Trace.Rows {
		t.keys, t.by = append(t.keys, client), append(t.by, client)
		t.line(len(t.keys), 0, traceCells(&r)...)
	}
	t.table.Select(max(min(row, len(t.keys)), 1), 0)
}

func (t *top) key(e *tcell.EventKey) *tcell.EventKey {
	row, _ := t.table.GetSelection()
	key := t.at(row)
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
			t.begin()
		case e.Rune() == 'c':
			t.who = !t.who
			t.begin()
		case key != "":
			t.trace(t.by[row-1])
		}
	case '/':
		t.read("find: ", t.Find, func(text string) { t.Find = text })
	case 'l', 'b', 'e', 'u':
		if key != "" {
			t.act(e.Rune(), key)
		}
	default:
		return e
	}
	return nil
}

// kind returns the field of an override that names the target of a row.
func (t *top) kind() string {
	if t.who || t.traced != "" {
		return "client"
	}
	return "key"
}

// act changes the override of a key or a client. Limits, blocks and exemptions that it sets end after 15 minutes.
func (t *top) act(what rune, key string) {
	switch what {
	case 'l':
		t.read("requests a second for 15m: ", "", func(text string) {
			rate, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.foot.SetText(printable(text) + " is no number")
				return
			}
			t.put(map[string]any{t.kind(): key, "rate": rate, "for": "15m"}, nil)
		})
	case 'b':
		t.put(map[string]any{t.kind(): key, "action": "block", "for": "15m"}, nil)
	case 'e':
		t.put(map[string]any{t.kind(): key, "action": "exempt", "for": "15m"}, nil)
	case 'u':
		t.say(func(ctx context.Context, out *bytes.Buffer) error {
			list, _, err := t.overrides(ctx)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(list, func(o listedOverride) bool {
				return (o.Key == key || o.Client == key) && o.Source != "file"
			})
			did, query, header := t.last[key], url.Values{"author": {authorOf("")}}, http.Header(nil)
			switch { // a change that another person has made since is kept
			case did.Change != 0:
				query.Set("revision", strconv.FormatInt(did.Change, 10))
			case i >= 0:
				did.ID, header = list[i].ID, ifMatch(list[i].Version)
			default:
				return fmt.Errorf("%s has no override", key)
			}
			delete(t.last, key)
			_, err = t.undo(ctx, &changeLog{lines: out, warnings: out}, did.ID, query, header)
			return err
		})
	}
}

func (t *top) put(body map[string]any, word url.Values) {
	body["author"], body["reason"] = authorOf(""), "hotparam top"
	t.say(func(ctx context.Context, out *bytes.Buffer) error {
		log := &changeLog{lines: out, warnings: out}
		saved, err := t.putOverride(ctx, log, overridePut{body: body, query: word})
		if u, ok := errors.AsType[*unconfirmed](err); ok {
			t.read(tview.Escape(printable(u.detail))+" - type yes: ", "", func(text string) {
				if text == "yes" {
					t.put(body, confirmed)
				}
			})
			return nil
		}
		if err == nil {
			t.last[fmt.Sprint(body[t.kind()])] = saved
		}
		return err
	})
}

func (t *top) say(do func(context.Context, *bytes.Buffer) error) {
	var out bytes.Buffer
	if err := do(context.Background(), &out); err != nil { // ask bounds the time
		t.foot.SetText(printable(err.Error()))
		return
	}
	t.foot.SetText(printable(strings.TrimSpace(strings.ReplaceAll(out.String(), "\n", "  "))))
}

func (t *top) read(label, text string, then func(string)) {
	t.entry = then
	t.input.SetLabel(label).SetText(text)
	t.pages.SwitchToPage("input")
	t.app.SetFocus(t.input)
}

// typed ends reading. Enter accepts the text, and any other key discards it.
func (t *top) typed(key tcell.Key) {
	t.foot.SetText(topHelp)
	t.pages.SwitchToPage("help")
	t.app.SetFocus(t.table)
	if key == tcell.KeyEnter {
		t.entry(t.input.GetText())
	}
}
