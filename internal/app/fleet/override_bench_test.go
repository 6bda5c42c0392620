package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// manyOverrides is a copy of n overrides, which a process writes to a Redis that has none.
type manyOverrides int

func (n manyOverrides) Load() (revision int64, entries map[string]string) {
	entries = map[string]string{}
	for i := range int(n) {
		o := rules.Override{ID: fmt.Sprint("o", i), Action: rules.ActionBlock, Author: "ann", Created: time.Unix(1e9, 0)}
		switch i % 4 {
		case 0, 1:
			o.Key = fmt.Sprint("topic?id=", i)
		case 2:
			o.Key = fmt.Sprintf("topic?id=%d*", i)
		default:
			o.Client = fmt.Sprintf("10.0.%d.%d", i/256, i%256)
		}
		text, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		entries[o.ID] = string(text)
	}
	return 1, entries
}

func (manyOverrides) Save(int64, persistent.Map[string]) error { return nil }

func (manyOverrides) Compact() error { return nil }

// BenchmarkOverrideChange_Admin changes an override by the API of an aggregator, asks for it, and takes the sample of a
// second in which nothing changes, with few overrides in Redis and with as many as there may be.
func BenchmarkOverrideChange_Admin(b *testing.B) {
	set, err := rules.Parse("rules.yaml",
		[]byte("rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 5}}]"))
	if err != nil {
		b.Fatal(err)
	}
	var hot []hottype.HotKey
	for i := range 100 {
		hot = append(hot, hottype.HotKey{Key: hottype.Key(fmt.Sprint("topic?id=", i)), Rule: "topic", Rate: 20})
	}
	for _, n := range []int{10, 9_999} {
		feed := openFeed(b, redistest.Start(b).Addr())
		store, ctx := feed.Overrides(), context.Background()
		store.LoadCopy(manyOverrides(n))
		if all, err := store.Live(ctx); err != nil || all.Len() != n {
			b.Fatal(all.Len(), err)
		}
		redistest.Running(b, func(ctx context.Context) error {
			return store.Follow(ctx, func(rules.LiveOverrides) {})
		})
		server, err := admin.New(admin.Config{Config: live.Config{
			Namespace: "news", Hot: func() []hottype.HotKey { return hot }, Rules: func() *rules.Set { return set },
			Reports: feed.ReadReports, Overrides: store, Log: slog.New(slog.DiscardHandler),
		}})
		if err != nil {
			b.Fatal(err)
		}
		handler := server.Handler()
		ask := func(method, path, body string) {
			req := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
			rec := httptest.NewRecorder()
			if handler.ServeHTTP(rec, req); rec.Code/100 != 2 {
				b.Fatalf("%s %s: %d %s", method, path, rec.Code, rec.Body)
			}
		}
		put := func() { ask(http.MethodPut, "/v1/overrides/x", `{"key": "topic?id=x", "rate": 5}`) }
		for range 100 { // the number of changes that the page reads
			put()
		}
		b.Run(fmt.Sprint("put/", n), func(b *testing.B) {
			for b.Loop() {
				put()
			}
		})
		b.Run(fmt.Sprint("put and get/", n), func(b *testing.B) {
			for b.Loop() {
				put()
				ask(http.MethodGet, "/v1/overrides/x", "")
			}
		})
		b.Run(fmt.Sprint("second/", n), func(b *testing.B) {
			for b.Loop() {
				server.Sample(ctx, time.Now())
			}
		})
	}
}
