package hotparam_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/hotparam/shared"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func judge(t *testing.T, p *hotparam.Pipeline, target string) hotparam.Verdict {
	t.Helper()
	v, err := p.Decide(t.Context(), hotparam.Request{Method: "GET", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A live override applies to the next request, regardless of the spelling of its key, until it is removed.
func ExamplePipeline_SetOverride() {
	rules, err := hotparam.ParseRules("rules.yaml", rulesYAML)
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	decide := func() {
		v, err := p.Decide(ctx, hotparam.Request{Method: "GET", Target: "/topic?id=42"})
		fmt.Println(v.Allowed, v.Reason, err)
	}
	block, err := p.SetOverride(ctx, rule.Override{Key: "topic?id=%34%32", Action: rule.ActionBlock, Reason: "viral"})
	fmt.Println(block.Key, err)
	decide()
	list, err := p.Overrides(ctx)
	fmt.Println(len(list), list[0].Action, err)
	fmt.Println(p.RemoveOverride(ctx, block.ID))
	decide()
	// Output:
	// topic?id=42 <nil>
	// false blocked <nil>
	// 1 block <nil>
	// <nil>
	// true cold <nil>
}

// New rules hold for the next request.
func ExamplePipeline_SetRules() {
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		log.Fatal(err)
	}
	next, err := hotparam.NewRules(rule.Set{
		Rules: []rule.Rule{{Name: "topic", Params: rule.Params("id"), Hot: rule.Hot{Rate: 20},
			Limit: rule.LimitOf(limit.PerSecond(10))}},
		Overrides: []rule.Override{{Key: "topic?id=42", Action: rule.ActionBlock}},
	})
	fmt.Println(err, p.SetRules(next))
	v, err := p.Decide(context.Background(), hotparam.Request{Method: "GET", Target: "/topic?id=42"})
	fmt.Println(v.Allowed, v.Reason, err)
	// Output:
	// <nil> <nil>
	// false blocked <nil>
}

// Bad overrides and rules are errors and change nothing.
func TestPipeline_ControlRejectsBadValues(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, string(rulesYAML))
	for _, o := range []rule.Override{
		{}, {Key: "topic?id=42"}, {Key: "topic?id=42", Action: "stop"}, {Client: "anna", Action: rule.ActionBlock},
		{Key: "topic?id=42", Action: rule.ActionBlock, Until: time.Now().Add(-time.Second)},
		{Key: "topic?id=42", CIDR: "192.0.2.0/24", Action: rule.ActionBlock},
		{Key: "topic?path.id=42", Action: rule.ActionBlock}, {Resource: "topics", Action: rule.ActionBlock},
		{Key: "topics?id=4*", Action: rule.ActionBlock}, {Class: "crawler", Action: rule.ActionBlock},
	} {
		if stored, err := p.SetOverride(t.Context(), o); err == nil {
			t.Errorf("%+v was stored as %+v", o, stored)
		}
	}
	if err := p.RemoveOverride(t.Context(), "no-such"); !errors.Is(err, rule.ErrNoOverride) {
		t.Error(err)
	}
	other, err := hotparam.ParseRules("other.yaml", []byte("namespace: other"+elsewhere))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetRules(other); err == nil {
		t.Error("the namespace changed")
	}
	if list, err := p.Overrides(t.Context()); len(list) != 0 || err != nil {
		t.Error(list, err)
	}
}

// An override is put in the place of the one with its target, and outlives a restart in StateDir.
func TestOverridesOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, rate := range []float64{10, 20} {
		p := newPipeline(t, hotparam.Config{StateDir: dir}, string(rulesYAML))
		stop := run(p)
		list, err := p.Overrides(t.Context())
		if len(list) != i || err != nil {
			t.Errorf("start %d: %v, %v", i, list, err)
		}
		if _, err := p.SetOverride(t.Context(), rule.Override{Key: "topic?id=42", Rate: rate}); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// Overrides and rules are changed while requests are decided; the race detector watches.
func TestPipeline_ControlBesideRequests(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{OnEvent: func(hotparam.Event) {}}, string(rulesYAML))
	defer run(p)()
	rules, err := hotparam.ParseRules("rules.yaml", rulesYAML)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 50 {
				judge(t, p, fmt.Sprintf("/topic?id=%d", i))
				o, err := p.SetOverride(t.Context(), rule.Override{Key: fmt.Sprintf("topic?id=%d", n), Rate: 10})
				if err == nil {
					err = errors.Join(p.SetRules(rules), p.RemoveOverride(t.Context(), o.ID))
				}
				if err != nil {
					t.Error(err)
				}
				p.Stats()
			}
		})
	}
	all.Wait()
}

// OnEvent is called with a key that becomes hot and cold, and with an override that is set and ends by itself.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		p := newPipeline(t, hotparam.Config{OnEvent: func(e hotparam.Event) {
			seen = append(seen, fmt.Sprintf("%s %v %s%s", e.Kind, e.Ended, e.Hot.Key, e.Override.Key))
		}}, `rules: [{name: topic, match: {path: "/topic"}, params: [id], hot: {rate: 20, cooldown: 1s}, limit: {rate: 10}}]`)
		stop := run(p)
		for range 500 {
			judge(t, p, "/topic?id=42")
			time.Sleep(10 * time.Millisecond)
		}
		o := rule.Override{Key: "topic?id=7", Action: rule.ActionBlock, Until: time.Now().Add(2 * time.Second)}
		if _, err := p.SetOverride(t.Context(), o); err != nil {
			t.Error(err)
		}
		if v := judge(t, p, "/topic?id=7"); v.Reason != hottype.ReasonBlocked {
			t.Errorf("%+v", v)
		}
		time.Sleep(30 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := []string{"hot false topic?id=42", "override false topic?id=7", "override true topic?id=7",
			"cold false topic?id=42"}
		if !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
	})
}

// An override that one process sets applies in the others, and a process without an aggregator reports that it is
// blind.
func TestControlOfManyProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	blind := make(chan hotparam.Event, 100)
	var both [2]*hotparam.Pipeline
	for i := range both {
		both[i] = newPipeline(t, hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: noSink{}},
			OnEvent: func(e hotparam.Event) { blind <- e }}, string(rulesYAML))
		defer run(both[i])()
	}
	o, err := both[0].SetOverride(t.Context(), rule.Override{Key: "topic?id=42", Action: rule.ActionBlock})
	if err != nil {
		t.Fatal(err)
	}
	blocked := func() bool { return judge(t, both[1], "/topic?id=42").Reason == hottype.ReasonBlocked }
	redistest.Eventually(t, "the block of another process", blocked)
	if err := both[1].RemoveOverride(t.Context(), o.ID); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "its end", func() bool { return !blocked() })
	for e := range blind {
		if e.Kind == hotparam.EventBlind {
			break
		}
	}
}

// TestEvents_TellWhenTheStoreIsLostAndBack uses an override, because its limit asks the store for each request.
func TestEvents_TellWhenTheStoreIsLostAndBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	var lost, back atomic.Bool
	note := func(e hotparam.Event) {
		if e.Kind == hotparam.EventStore {
			lost.Store(lost.Load() || !e.Ended)
			back.Store(e.Ended)
		}
	}
	p := newPipeline(t, hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: noSink{}}, OnEvent: note}, string(rulesYAML)+"\noverrides: [{key: 'topic?id=42', action: limit, rate: 1000000}]\n")
	defer run(p)()
	asks := func(seen *atomic.Bool) func() bool {
		return func() bool {
			judge(t, p, "/topic?id=42")
			return seen.Load()
		}
	}
	server.Stop()
	redistest.Eventually(t, "an event of the lost store", asks(&lost))
	server.Relaunch()
	redistest.Eventually(t, "an event of the store that is back", asks(&back))
}

// A file of rules is read again when it has changed; a bad one changes nothing.
func TestWatchRules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "rules.yaml")
		write := func(text string, at int) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			when := time.Unix(int64(1e9+at), 0) // the clock of files is not the clock of the test
			if err := os.Chtimes(file, when, when); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		var taken []bool
		p := newPipeline(t, hotparam.Config{OnEvent: func(e hotparam.Event) {
			if e.Kind == hotparam.EventRules {
				taken = append(taken, e.Err == nil)
			}
		}}, string(rulesYAML))
		stop := run(p)
		ctx, cancel := context.WithCancel(t.Context())
		var watch sync.WaitGroup
		watch.Go(func() { p.WatchRules(ctx, file) })
		const block = "\noverrides: [{key: 'topic?id=42', action: block}]\n"
		for i, step := range []struct {
			text   string
			reason hottype.Reason
		}{
			{string(rulesYAML) + block, hottype.ReasonBlocked},
			{"rules: [{", hottype.ReasonBlocked}, {"\n", hottype.ReasonBlocked},
			{string(rulesYAML), hottype.ReasonCold},
		} {
			write(step.text, i)
			if v := judge(t, p, "/topic?id=42"); v.Reason != step.reason {
				t.Errorf("step %d: %v, want %v", i, v.Reason, step.reason)
			}
		}
		cancel()
		watch.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if want := []bool{true, false, false, true}; !slices.Equal(taken, want) {
			t.Errorf("events of rules: %v, want %v", taken, want)
		}
	})
}

// A request that was begun holds its slot until Done; Decide takes none that it could not release.
func TestBegin(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, elsewhere+"ip: {in_flight: {limit: 1}}")
	r := hotparam.Request{Method: "GET", Target: "/", Client: hottype.Client{Name: "anna"}}
	for range 3 {
		if v, err := p.Decide(t.Context(), r); !v.Allowed || err != nil {
			t.Fatal(v, err)
		}
	}
	for range 3 {
		first, err := p.Begin(t.Context(), r)
		if err != nil || !first.Allowed {
			t.Fatal(first, err)
		}
		second, err := p.Begin(t.Context(), r)
		if err != nil || second.Reason != hottype.ReasonIPInFlight {
			t.Error(second, err)
		}
		second.Done()
		first.ResponseStarted(200)
		first.Done()
	}
}

// TestPipeline_KeepsSecretsOfPassesInStateDir runs a pipeline twice. The second run has the secrets of the first, so
// that it recognises the passes from before the restart.
func TestPipeline_KeepsSecretsOfPassesInStateDir(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state", "pass-secrets.json")
	var first map[string]string // by day
	for range 2 {
		stop := run(newPipeline(t, hotparam.Config{StateDir: filepath.Dir(file)}, `
rules: [{name: pages, match: {path: /}, params: [], hot: {rate: 10}, limit: {rate: 8, priority: [visitor]}}]
classes: [{name: visitor, pass_age: 10s}]
`))
		var kept struct{ Secrets map[string]string }
		redistest.Eventually(t, "secrets", func() bool {
			text, err := os.ReadFile(file)
			return err == nil && json.Unmarshal(text, &kept) == nil
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = kept.Secrets
		}
		for day, secret := range first {
			if kept.Secrets[day] != secret {
				t.Errorf("another secret of day %s after a restart", day)
			}
		}
	}
	if len(first) == 0 {
		t.Error("no secrets")
	}
}
