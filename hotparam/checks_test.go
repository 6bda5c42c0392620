package hotparam_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/adapter"
	"github.com/hotparam/pipeline/hotparam/admin"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/hotparam/shared"
	"github.com/hotparam/pipeline/internal/pipeline"
)

// Empty rules are an error wherever they come from, because a pipeline with them would silently limit nothing.
func TestRules_NeedARule(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, inFile := hotparam.LoadRules(file)
	_, inText := hotparam.ParseRules("mine", []byte("namespace: shop\n"))
	_, inGo := hotparam.NewRules(rule.Set{Namespace: "shop"})
	for want, err := range map[string]error{
		"hotparam: rules: " + file + ": is empty: ": inFile, "hotparam: rules: mine: has no rules: ": inText,
		"hotparam: rules: Set: has no rules: ": inGo,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), ", or leave Config.Rules nil for the default rules") {
			t.Errorf("%v, want %s", err, want)
		}
		if e := new(rule.Error); !errors.As(err, &e) || "hotparam: rules: "+e.Error() != err.Error() {
			t.Errorf("%v is no *rule.Error", err)
		}
	}
}

// A program can show the errors of rules at their places: each has its file, line and field.
func TestRules_ErrorsHaveFileLineAndField(t *testing.T) {
	t.Parallel()
	_, err := hotparam.ParseRules("mine", []byte("rules:\n  - {name: a, params: [], hot: {rate: x}}\n"+
		strings.Repeat("  - {nam: b}\n", 20)))
	list := rule.Errors{}
	if !errors.As(err, &list) || len(list) <= 20 || strings.Count(err.Error(), "\n") != 10 {
		t.Fatalf("%d errors of %v", len(list), err)
	}
	first := *list[0]
	if first.File != "mine" || first.Line != 2 || first.Column == 0 || first.Field != "rules[0].hot.rate" ||
		!strings.HasPrefix(err.Error(), "hotparam: rules: "+first.Error()+"\n") {
		t.Errorf("%+v of %v", first, err)
	}
	_, err = hotparam.NewRules(rule.Set{Rules: []rule.Rule{{Name: "a", Params: rule.Params("id"), Hot: rule.Hot{Rate: -1}}}})
	if e := new(rule.Error); !errors.As(err, &e) || e.Line != 0 || e.Field != "Rules[0].Hot.Rate" {
		t.Errorf("%+v of %v", e, err)
	}
}

// Values by which a request could not be judged are refused when they are passed.
func TestZeroValuesAreErrors(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	p := newPipeline(t, hotparam.Config{}, string(rulesYAML))
	fails := func(_ any, err error) error { return err }
	handler := http.NotFoundHandler()
	var options hotparam.Options[hotparam.Exchange]
	for name, c := range map[string]struct {
		call func() error
		want string
	}{
		"New": {func() error { return fails(hotparam.New(hotparam.Config{Rules: new(hotparam.Rules)})) },
			"hotparam: Config.Rules: the Rules are the zero value: make them with LoadRules"},
		"SetRules": {func() error { return p.SetRules(new(hotparam.Rules)) }, "hotparam: set rules: the Rules are the zero"},
		"sink": {func() error {
			return fails(hotparam.New(hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: (*nilSink)(nil)}}))
		}, "hotparam: shared: Sink is a nil *hotparam_test.nilSink"},
		"admin": {func() error { return fails(admin.New(nil, admin.Config{Token: strings.Repeat("x", 16)})) },
			"admin: hotparam: the Pipeline is nil"},
		"admin of a zero": {func() error {
			return fails(admin.New(new(hotparam.Pipeline), admin.Config{Token: strings.Repeat("x", 16)}))
		}, "admin: hotparam: the Pipeline is nil or the zero value"},
		"metrics": {func() error {
			return fails(admin.New(p, admin.Config{Token: strings.Repeat("x", 16), Metrics: http.HandlerFunc(nil)}))
		}, "admin: Config.Metrics is a nil"},
		"handler":        {panics(func() { p.Middleware(nil) }), "hotparam: the handler behind the middleware is nil"},
		"function":       {panics(func() { p.Middleware(http.HandlerFunc(nil)) }), "the handler behind the middleware is nil"},
		"with options":   {panics(func() { p.MiddlewareWith(options)(nil) }), "the handler behind the middleware is nil"},
		"middleware":     {panics(func() { new(hotparam.Pipeline).Middleware(handler) }), "the Pipeline is nil or the zero"},
		"middlewareWith": {panics(func() { (*hotparam.Pipeline)(nil).MiddlewareWith(options) }), "the Pipeline is nil"},
		"adapter":        {panics(func() { adapter.New(nil, options) }), "hotparam: the Pipeline is nil"},
		"statistics":     {panics(func() { pipeline.ReadStats(new(hotparam.Pipeline)) }), "hotparam: the Pipeline is nil"},
	} {
		if err := c.call(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// Methods of a Pipeline that New has not made do not dereference nil; their errors tell the caller to use New.
func TestPipeline_ZeroValueSaysToUseNew(t *testing.T) {
	t.Parallel()
	ctx, fails := t.Context(), func(_ any, err error) error { return err }
	for _, p := range []*hotparam.Pipeline{nil, new(hotparam.Pipeline)} {
		for name, call := range map[string]func() error{
			"Decide":         func() error { return fails(p.Decide(ctx, hotparam.Request{})) },
			"Begin":          func() error { return fails(p.Begin(ctx, hotparam.Request{})) },
			"Run":            func() error { return p.Run(ctx) },
			"SetOverride":    func() error { return fails(p.SetOverride(ctx, rule.Override{Key: "a"})) },
			"RemoveOverride": func() error { return p.RemoveOverride(ctx, "a") },
			"Overrides":      func() error { return fails(p.Overrides(ctx)) },
			"SetRules":       func() error { return p.SetRules(nil) },
			"WatchRules":     panics(func() { p.WatchRules(ctx, "rules.yaml") }),
			"Count":          panics(func() { p.Count(hotparam.Request{}) }),
			"Explain":        panics(func() { p.Explain(hotparam.Request{}) }),
			"Purge":          panics(func() { p.Purge("a") }),
			"Stats":          panics(func() { p.Stats() }),
		} {
			if err := call(); err == nil || !strings.HasPrefix(err.Error(), "hotparam: the Pipeline is nil or") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// panics returns a function that returns the error with which f panics.
func panics(f func()) func() error {
	return func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%v", r)
			}
		}()
		f()
		return nil
	}
}

// nilSink is a Sink that needs a constructor, like the Sink of package kafkasink.
type nilSink struct{ noSink }
