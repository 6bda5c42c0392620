package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gdamore/tcell/v2"
)

// key acts on a key of the keyboard.
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

// act changes what holds for a key. Blocks and exemptions from here end by themselves.
func (t *top) act(what rune, key string) {
	switch what {
	case 'l':
		t.read("requests a second for 15m: ", "", func(text string) {
			rate, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.foot.SetText(printable(text) + " is no number")
				return
			}
			t.put(map[string]any{"key": key, "rate": rate, "for": "15m"})
		})
	case 'b':
		t.put(map[string]any{"key": key, "action": "block", "for": "15m"})
	case 'e':
		t.put(map[string]any{"key": key, "action": "exempt", "for": "15m"})
	case 'u':
		t.say(func(ctx context.Context, out *bytes.Buffer) error {
			list, _, err := t.overrides(ctx)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(list, func(o listedOverride) bool { return o.Key == key && o.Source != "file" })
			id := t.last[key]
			if i >= 0 {
				id = list[i].ID
			}
			if id == "" {
				return fmt.Errorf("%s has no override", key)
			}
			_, err = t.undo(ctx, out, id, url.Values{"author": {authorOf("")}})
			return err
		})
	}
}

func (t *top) put(body map[string]any) {
	body["author"], body["reason"] = authorOf(""), "hotparam top"
	t.say(func(ctx context.Context, out *bytes.Buffer) error {
		_, err := t.putOverride(ctx, out, out, "", body)
		if id, _, found := strings.Cut(out.String(), ": "); err == nil && found {
			t.last[fmt.Sprint(body["key"])] = id
		}
		return err
	})
}

// say does something and shows what came of it.
func (t *top) say(do func(context.Context, *bytes.Buffer) error) {
	var out bytes.Buffer
	if err := do(context.Background(), &out); err != nil { // ask bounds it
		t.foot.SetText(printable(err.Error()))
		return
	}
	t.foot.SetText(printable(strings.TrimSpace(strings.ReplaceAll(out.String(), "\n", "  "))))
}

// read asks for a line of text.
func (t *top) read(label, text string, then func(string)) {
	t.entry = then
	t.input.SetLabel(label).SetText(text)
	t.pages.SwitchToPage("input")
	t.app.SetFocus(t.input)
}

// typed ends reading: Enter takes the text, all else leaves it.
func (t *top) typed(key tcell.Key) {
	t.foot.SetText(topHelp)
	t.pages.SwitchToPage("help")
	t.app.SetFocus(t.table)
	if key == tcell.KeyEnter {
		t.entry(t.input.GetText())
	}
}
