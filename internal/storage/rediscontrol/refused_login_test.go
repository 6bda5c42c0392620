package rediscontrol

import (
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A refused login is an error of every call and never an empty answer: no override is absent, no version is "", nothing
// is written, and no message asks to delete anything.
func TestFeed_RefusedLoginIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	log := new(redistest.Log)
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{s.Addr()}, Username: "ann", Password: "wrong",
		Namespace: "test", Timeout: 5 * time.Second, Log: log.Logger()})
	feed := New(redistest.MustOpen(t, c, err))
	store, ctx := feed.Overrides(), t.Context()
	for what, call := range map[string]func() error{
		"live":     func() error { _, err := store.Live(ctx); return err },
		"entry":    func() error { _, err := store.currentEntry(ctx, "id"); return err },
		"read":     func() error { _, err := store.read(ctx); return err },
		"put":      func() error { _, err := store.Put(ctx, blockOverride()); return err },
		"delete":   func() error { return store.Delete(ctx, "id", "ann") },
		"audit":    func() error { _, err := store.Audit(ctx, 1); return err },
		"revision": func() error { _, err := store.Revision(ctx); return err },
		"rules":    func() error { _, err := feed.Rules().Read(ctx); return err },
		"history":  func() error { _, err := feed.Rules().History(ctx); return err },
		"reports":  func() error { _, err := feed.ReadReports(ctx); return err },
		"publish":  func() error { return feed.Publisher("agg").Publish(ctx, report.HotSet{}) },
		"inherited": func() error {
			p := feed.NewPublisher(PublisherConfig{ID: "agg", Window: func(string) time.Duration { return 0 }})
			return p.readInherited(ctx)
		},
	} {
		err := call()
		if err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "delete") {
			t.Errorf("%s: %v; want WRONGPASS", what, err)
		}
	}
	if log.String() != "" {
		t.Errorf("the log reads something into it:\n%s", log)
	}
}

func blockOverride() rules.Override {
	return rules.Override{Key: "topic?id=1", Action: rules.ActionBlock, Author: "ann"}
}
