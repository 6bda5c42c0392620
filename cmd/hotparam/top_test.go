package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/gdamore/tcell/v2"
)

// adminStub answers as an admin listener does and records the requested changes.
type adminStub struct {
	mu      sync.Mutex
	changes []string
	sorts   []string
}

func (a *adminStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case r.URL.Path == "/v1/hot":
		a.sorts = append(a.sorts, r.URL.Query().Get("sort")+" "+r.URL.Query().Get("find"))
		since := time.Date(2026, 3, 14, 10, 59, 0, 0, time.UTC)
		keys := []map[string]any{{"key": "topic?id=42", "rule": "topic", "rate": 900, "clients": 12, "since": since,
			"heaviest_client": "192.0.2.7", "limit": map[string]any{"text": "100/s"}}}
		for _, text := range hostile {
			keys = append(keys, map[string]any{"key": "[red]" + text, "rule": "topic", "rate": 5, "since": since})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"at": time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC), "matched": len(keys), "keys": keys,
			"totals":  map[string]any{"requests_per_second": 1500, "limiters": 2},
			"trouble": []string{"a \x1b[2Jlimiter is silent"},
		})
	case r.Method == http.MethodGet && r.URL.Path == "/v1/client" && r.URL.Query().Get("client") == "192.0.2.7":
		_, _ = io.WriteString(w, `{"client":"192.0.2.7","trace":{"until":"2026-03-14T12:01:00Z","limiters":2,"requests":31,
			"rows":[{"key":"topic?id=99","allowed":false,"reason":"hot","requests":30,"last":"2026-03-14T12:00:00Z"}]}}`)
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `{"overrides":[{"id":"one","key":"topic?id=42","action":"block","source":"live"}]}`)
	default:
		body, _ := io.ReadAll(r.Body)
		a.changes = append(a.changes, r.Method+" "+r.URL.RequestURI()+" "+string(body))
		_, _ = io.WriteString(w, `{"id":"one","key":"topic?id=42","action":"block","override":null}`)
	}
}

func (a *adminStub) asked() (changes, sorts string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.changes, "\n"), strings.Join(a.sorts, "\n")
}

// A screen of 80 columns shows keys as text, whatever bytes they contain, and keys of the keyboard change their
// overrides.
func TestTop_ShowsKeysAndChangesOverrides(t *testing.T) {
	t.Parallel()
	stub := &adminStub{}
	srv := httptest.NewServer(stub)
	t.Cleanup(srv.Close)
	screen := tcell.NewSimulationScreen("UTF-8")
	top := newTop(&topCmd{
		adminFlags: adminFlags{Admin: srv.URL, Timeout: 5 * time.Second}, Interval: 100 * time.Millisecond,
		Sort: "rate",
	})
	top.app.SetScreen(screen)
	screen.SetSize(80, 24)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- top.run(ctx) }()
	shown := func(what string) {
		t.Helper()
		poll, end := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
		defer poll.Stop()
		for {
			text := ""
			if top.update(ctx, func() { text = contents(screen) }); strings.Contains(text, what) {
				return
			}
			select {
			case <-poll.C:
			case <-end:
				t.Fatalf("%q is not shown:\n%s", what, text)
			}
		}
	}
	press := func(keys string) {
		for _, r := range keys {
			if r == '\n' {
				screen.InjectKey(tcell.KeyEnter, 0, tcell.ModNone)
			} else {
				screen.InjectKey(tcell.KeyRune, r, tcell.ModNone)
			}
		}
	}
	shown("topic?id=42")
	shown("1500/s: ? allowed, ? denied  21 hot")
	shown("[red]") // no colour is made of it
	shown("limiter is silent")
	shown("LIMIT") // beside a key of 8 KiB
	shown("1h1m0s  100/s")
	press("b")
	shown("one: topic?id=42, block")
	press("l25\n")
	press("u")
	shown("one: undone; there is none now")
	press("t")
	shown("192.0.2.7: 31 requests, by 2 limiters")
	shown("denied  hot        30  12:00:00")
	press("b") // the client, not the key that it asks for
	shown("one: topic?id=42, block")
	press("t")
	shown("1h1m0s  100/s")
	press("lmany\n")
	shown("many is not a number")
	press("s/42\n")
	shown("only with 42")
	changes, sorts := stub.asked()
	for _, want := range []string{`"action":"block"`, `"client":"192.0.2.7"`, "POST /v1/client/trace?client=192.0.2.7",
		`"rate":25`, "POST /v1/overrides/one/undo"} {
		if !strings.Contains(changes, want) {
			t.Errorf("%s was not asked for:\n%s", want, changes)
		}
	}
	if !strings.Contains(sorts, "denied 42") {
		t.Error(sorts)
	}
	top.update(ctx, func() {
		if i := strings.IndexFunc(contents(screen),
			func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("something at %d acts upon a terminal", i)
		}
	})
	srv.Close()
	shown("no answer")
	press("q")
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("q does not end it")
	}
}

// contents returns the text of a screen.
func contents(screen tcell.SimulationScreen) string {
	cells, width, _ := screen.GetContents()
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(string(c.Runes))
		if i%width == width-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
