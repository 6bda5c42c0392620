package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/mattn/go-isatty"
	"github.com/rivo/tview"

	"github.com/hotparam/pipeline/internal/app/config"
)

type topCmd struct {
	adminFlags
	Interval time.Duration `default:"1s" help:"Interval of the requests."`
	Sort     string        `enum:"rate,threshold,share,clients,since,key,allowed,denied,served,would" default:"rate" help:"Order: ${enum}."`
	Find     string        `placeholder:"TEXT" help:"Only keys and rules whose name contains this text."`
}

func (c *topCmd) Run(ctx context.Context) error {
	if c.Interval < 100*time.Millisecond {
		return config.Usage("top: --interval %v must be at least 100ms", c.Interval)
	}
	if !isatty.IsTerminal(os.Stdin.Fd()) || !isatty.IsTerminal(os.Stdout.Fd()) {
		return config.Usage("top: needs a terminal; hotparam hot ls prints the same once, hot watch prints each change")
	}
	if _, _, err := c.fetchHotKeys(ctx, 1, c.Sort, c.Find); err != nil { // easier to read now than on the screen
		return err
	}
	return newTop(c).run(ctx)
}

const topKeys = 200

// topOrders is the cycle of orders of the s key.
var topOrders = []string{"rate", "denied", "allowed", "clients", "since", "share", "key", "threshold"}

// top is the screen. The goroutine of the application owns it.
type top struct {
	*topCmd
	app          *tview.Application
	head         *tview.TextView
	table        *tview.Table
	foot         *tview.TextView
	input        *tview.InputField
	pages        *tview.Pages // "help" or "input", below
	root         *tview.Pages // "top", and "?" before it
	targets      []string     // for each row: its key, or its client
	clients      []string     // for each row: the heaviest known client, or "" if unknown
	isClientView bool         // denied clients are shown, not hot keys
	traced       string       // the client whose trace is shown instead of both, or ""
	lastSaved    map[string]savedOverride
	paused       bool
	onEntry      func(text string) // called with the text that was typed
}

const topHelp = "↑↓ ? help  q quit  l limit  b block  e exempt  u undo  t trace  c clients  / find  s sort  p pause"

const topMore = `
  up, down   choose a row
  c          hot keys, or the clients that are denied
  l          limit it, for 15 minutes: a rate in requests a second is asked for
  b          block it, for 15 minutes
  e          exempt it from limits, for 15 minutes
  u          undo the last change of its override
  t          trace its client for a minute: what it asks for, and what is decided; t or c goes back
  /          show only keys and rules with a text in their name
  s          sort by the next column
  p          pause, and go on
  q          quit

What would reach more than a tenth of the requests or clients is asked about once more.
STATE: hot is over its threshold and limited; a loop is so because of one or a few clients, and is not limited.

Any key goes back.`

func newTop(c *topCmd) *top {
	t := &top{
		topCmd: c, app: tview.NewApplication(), head: tview.NewTextView(), table: tview.NewTable(),
		foot:  tview.NewTextView(),
		input: tview.NewInputField(), pages: tview.NewPages(), lastSaved: map[string]savedOverride{},
	}
	t.setStyles()
	t.table.SetFixed(1, 0).SetSelectable(true, false)
	t.foot.SetText(topHelp)
	t.pages.AddPage("help", t.foot, true, true).AddPage("input", t.input, true, false)
	t.input.SetDoneFunc(t.finishInput)
	t.table.SetInputCapture(t.handleKey)
	screen := tview.NewFlex().SetDirection(tview.FlexRow).AddItem(t.head, 2, 0, false).AddItem(t.table, 0, 1, true).
		AddItem(t.pages, 1, 0, false)
	help := tview.NewTextView().SetText(topMore)
	help.SetTextStyle(tcell.StyleDefault).SetBackgroundColor(tcell.ColorDefault)
	help.SetInputCapture(func(*tcell.EventKey) *tcell.EventKey {
		t.root.SwitchToPage("top")
		t.app.SetFocus(t.table)
		return nil
	})
	t.root = tview.NewPages().AddPage("?", help, true, false).AddPage("top", screen, true, true)
	t.app.SetRoot(t.root, true)
	return t
}

// setStyles leaves the colours to the terminal. With NO_COLOR only bold and reverse are used.
func (t *top) setStyles() {
	plain := tcell.StyleDefault
	for _, text := range []*tview.TextView{t.head, t.foot} {
		text.SetTextStyle(plain).SetWrap(false)
		text.SetBackgroundColor(tcell.ColorDefault)
	}
	t.table.SetBackgroundColor(tcell.ColorDefault)
	t.table.SetSelectedStyle(plain.Reverse(true))
	t.input.SetBackgroundColor(tcell.ColorDefault)
	t.input.SetFieldStyle(plain).SetLabelStyle(plain.Bold(true))
}

// run shows the hot keys until the user ends it.
func (t *top) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		t.pollListener(ctx)
	}()
	stop := context.AfterFunc(ctx, t.app.Stop)
	defer stop()
	err := t.app.Run()
	cancel()
	<-asked
	return err
}

func (t *top) pollListener(ctx context.Context) {
	tick := time.NewTicker(t.Interval)
	defer tick.Stop()
	for {
		var sort, find string
		paused, who, traced := false, false, ""
		if !t.update(ctx, func() {
			sort, find, paused, who, traced = t.Sort, t.Find, t.paused, t.isClientView, t.traced
		}) {
			return
		}
		var draw func()
		switch {
		case paused:
			draw = func() {}
		case traced != "":
			a, _, err := t.fetchClient(ctx, traced)
			draw = func() { t.showTrace(traced, &a, err) }
		case who:
			a, err := t.fetchDeniedClients(ctx)
			draw = func() { t.showClients(&a, err) }
		default:
			a, _, err := t.fetchHotKeys(ctx, topKeys, sort, find)
			draw = func() { t.showKeys(&a, sort, find, err) }
		}
		if !t.update(ctx, draw) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// update runs f on the goroutine of the application. It returns true when f has run, or false if ctx ended first.
func (t *top) update(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	go t.app.QueueUpdateDraw(func() { // blocks for ever if the application has ended
		f()
		close(done)
	})
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// showKeys draws the hot keys. If there is no answer, the last one stays on the screen and the head shows the error.
func (t *top) showKeys(a *hotAnswer, sort, find string, err error) {
	if err != nil {
		t.head.SetText("no answer, tried again: " + printableText(err.Error()))
		return
	}
	if t.isClientView || t.traced != "" {
		return // the view was changed after the question
	}
	t.head.SetText(formatSummary(a, sort, find))
	row, selected := t.clearTable()
	t.drawRow(0, tcell.AttrBold, "KEY", "STATE", "RATE", "DENIED/S", "ALLOWED/S", "CLIENTS", "SINCE", "LIMIT")
	for i := range a.Keys {
		h := &a.Keys[i]
		t.targets, t.clients = append(t.targets, string(h.Key)), append(t.clients, h.HeaviestClient)
		t.drawRow(len(t.targets), 0, string(h.Key), "hot", keyRate(&h.HotKey), formatDenied(h),
			formatRate(h.Allowed), formatClients(h.Clients), formatAge(a.At, h.Since), limitText(h))
	}
	for i := range a.Loops {
		h := &a.Loops[i]
		t.targets, t.clients = append(t.targets, string(h.Key)), append(t.clients, h.HeaviestClient)
		t.drawRow(len(t.targets), 0, string(h.Key), "loop", keyRate(h), "", "", formatClients(h.Clients),
			formatAge(a.At, h.Since), "")
	}
	t.restoreSelection(row, selected)
}

// clearTable empties the table, and returns the selected row and its key or client.
func (t *top) clearTable() (row int, selected string) {
	row, _ = t.table.GetSelection()
	selected = t.targetAt(row)
	t.table.Clear()
	t.targets, t.clients = t.targets[:0], t.clients[:0]
	return row, selected
}

// restoreSelection selects the same key or client again, or its former row if it is no longer in the table.
func (t *top) restoreSelection(row int, selected string) {
	t.table.Select(max(slices.Index(t.targets, selected)+1, min(row, len(t.targets)), 1), 0)
}

// formatSummary returns two lines: the totals, and notes.
func formatSummary(a *hotAnswer, sort, find string) string {
	would := ""
	if w := a.Totals.WouldDeny; w != nil && *w > 0 {
		would = ", " + formatRate(w) + " in shadow"
	}
	text := fmt.Sprintf("%s  %s/s: %s allowed, %s denied%s  %d hot  %s  %s  by %s\n", a.At.Local().Format("15:04:05 MST"),
		formatTotal(a.Totals.Requests), formatTotal(a.Totals.Allowed), formatTotal(a.Totals.Denied), would, a.Matched,
		formatCount(len(a.Loops), "loop", "loops"), formatCount(a.Totals.Limiters, "limiter", "limiters"), sort)
	notes := slices.Clone(a.Trouble)
	if find != "" {
		notes = append(notes, "only with "+find)
	}
	if a.Matched == 0 && len(a.Loops) == 0 {
		notes = append(notes, "nothing is hot")
	}
	return text + printableText(strings.Join(notes, "; "))
}

func formatTotal(f *float64) string {
	if f == nil {
		return "?"
	}
	return formatRate(f)
}

// keyWidth returns the width of the first column. It leaves room for the other columns, because clients choose keys of
// any length.
func (t *top) keyWidth() int {
	const others, least, most = 64, 16, 60
	_, _, width, _ := t.table.GetInnerRect()
	return min(max(width-others, least), most)
}

// drawRow draws one row. The first column is wide, and the others are aligned right except the last.
func (t *top) drawRow(row int, attr tcell.AttrMask, cells ...string) {
	for i, text := range cells {
		cell := tview.NewTableCell(tview.Escape(printableText(text)) + " ")
		cell.SetStyle(tcell.StyleDefault.Attributes(attr))
		switch {
		case i == 0:
			cell.SetExpansion(1).SetMaxWidth(t.keyWidth())
		case i < len(cells)-1:
			cell.SetAlign(tview.AlignRight)
		}
		if i == 1 && text == "hot" && os.Getenv("NO_COLOR") == "" {
			cell.SetTextColor(tcell.ColorRed)
		}
		t.table.SetCell(row, i, cell)
	}
}

// targetAt returns the key or client of a row, or "" if there is no such row.
func (t *top) targetAt(row int) string {
	if row < 1 || row > len(t.targets) {
		return ""
	}
	return t.targets[row-1]
}
