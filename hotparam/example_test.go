package hotparam_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
)

var rulesYAML = []byte(`
parse_as: go
rules:
  - name: topic
    match: {path: "/topic"}
    params: [id]
    hot:   {rate: 200, window: 5s, min_clients: 5}
    limit: {algorithm: token_bucket, rate: 100, burst: 200}
`)

// A service protects itself without another server.
func Example() {
	rules, err := hotparam.ParseRules("rules.yaml", rulesYAML)
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /topic", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "all about topic %s", r.URL.Query().Get("id")) // FormValue would prefer an id in a body
	})
	service := httptest.NewServer(p.Middleware(mux))
	response, err := http.Get(service.URL + "/topic?id=42")
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	fmt.Println(response.Status)

	service.Close() // first the server,
	cancel()        // then the pipeline
	fmt.Println(<-ended, p.Stats().Delivered)
	// Output:
	// 200 OK
	// <nil> 1
}

// An operator asks why a request is denied. The explanation charges no limit.
func ExamplePipeline_Explain() {
	rules, err := hotparam.ParseRules("rules.yaml", rulesYAML)
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	_, err = p.SetOverride(context.Background(),
		rule.Override{ID: "viral", Key: "topic?id=42", Action: rule.ActionBlock, Reason: "in the news"})
	fmt.Println(err)
	for _, e := range p.Explain(hotparam.Request{Method: "GET", Target: "/topic?utm_source=x&id=42"}) {
		fmt.Println(e.Rule, e.Key, e.Hot, e.Override)
		for _, limit := range e.Limits {
			fmt.Println("-", limit)
		}
	}
	// Output:
	// <nil>
	// topic topic?id=42 false viral
	// - override viral: block (in the news)
	// - rule topic: hot from 200/s over 5s, then token_bucket 100 per 1s, burst 200 (cluster, enforce)
}

// Rules may be Go values: a topic is hot from 200 requests a second on, and is then limited to 100; no client has more
// than 50.
func ExampleNewRules() {
	rules, err := hotparam.NewRules(rule.Set{
		ParseAs: rule.ParseAs{Preset: "strict"},
		Rules: []rule.Rule{{
			Name: "topic", Match: rule.Match{Path: "/topic"}, Params: rule.Params("id"),
			Hot: rule.Hot{Rate: 200}, Limit: rule.LimitOf(limit.PerSecond(100)),
		}},
		IP: rule.IP{Clients: rule.Clients{Fixed: &rule.Window{Limit: 50, Window: time.Second}}},
	})
	fmt.Println(rules.Namespace(), err)

	_, err = hotparam.NewRules(
		rule.Set{Rules: []rule.Rule{{Name: "topic", Params: rule.Params("id"), Hot: rule.Hot{Rate: -1}}}})
	fmt.Println(err)
	// Output:
	// default <nil>
	// hotparam: rules: Set: Rules[0].Hot.Rate: "-1" is not a rate; write requests per second (100, 0.5), or 30/m, 24/h, 7/d, 10/3s
}

// A request that does not come by HTTP is judged by its description.
func ExamplePipeline_Decide() {
	rules, err := hotparam.ParseRules("rules.yaml", rulesYAML)
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	verdict, err := p.Decide(context.Background(), hotparam.Request{Method: "GET", Target: "/topic?id=42"})
	fmt.Println(verdict.Allowed, verdict.Reason, err)
	// Output: true cold <nil>
}

// A handler whose key is in the body decides after reading the body.
func ExampleDecision_WriteDenial() {
	rules, err := hotparam.ParseRules("rules.yaml", append(rulesYAML,
		"overrides: [{key: 'topic?id=42', action: block}]\n"...))
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := "/topic?id=" + url.QueryEscape(r.PostFormValue("id"))
		d, err := p.Begin(r.Context(), hotparam.Request{Method: r.Method, Target: target})
		if err != nil {
			return // the client left
		}
		defer d.Done()
		if !d.Allowed {
			d.WriteDenial(w, r)
			return
		}
		fmt.Fprint(w, "hello")
	})
	r := httptest.NewRequest(http.MethodPost, "/rpc", strings.NewReader("id=42"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	service.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 429 application/problem+json
}

// Rules come from a file that programs and services share.
func ExampleLoadRules() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(file, rulesYAML, 0o600); err != nil {
		log.Fatal(err)
	}
	rules, err := hotparam.LoadRules(file)
	fmt.Println(rules.Namespace(), err)
	// Output: default <nil>
}

// An error names the file, the line and the field.
func ExampleParseRules() {
	_, err := hotparam.ParseRules("rules.yaml", []byte(`
rules:
  - {name: topic, params: [id], hot: {rate: 200}, limit: {rate: 100, brust: 200}}
`))
	fmt.Println(err)
	// Output: hotparam: rules: rules.yaml:3: rules[0].limit.brust: unknown field; did you mean "burst"?
}

// Every field has a default: this pipeline works in its own process by the default rules.
func ExampleConfig() {
	p, err := hotparam.New(hotparam.Config{
		Instance:    "shop-1",              // its name in reports
		Budget:      10 * time.Millisecond, // longest wait of a decision for Redis
		RetryJitter: 2 * time.Second,       // spreads retries after denials
	})
	fmt.Println(p.Stats().Counted, err)
	// Output: 0 <nil>
}

// Rules may be nil: each path with its query is then a key.
func ExampleNew() {
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		log.Fatal(err)
	}
	verdict, err := p.Decide(context.Background(), hotparam.Request{Method: "GET", Target: "/topic?id=42"})
	fmt.Println(verdict.Allowed, verdict.Reason, err)
	// Output: true cold <nil>
}

// The middleware responds to denied requests, here to requests for a blocked topic.
func ExamplePipeline_Middleware() {
	rules, err := hotparam.ParseRules("rules.yaml", append(rulesYAML,
		"overrides: [{key: 'topic?id=42', action: block}]\n"...))
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		log.Fatal(err)
	}
	service := p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	for _, target := range []string{"/topic?id=42", "/topic?utm_source=x&id=42", "/topic?id=7"} {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		fmt.Println(target, w.Code)
	}
	// Output:
	// /topic?id=42 429
	// /topic?utm_source=x&id=42 429
	// /topic?id=7 200
}

// A handler logs the client behind the proxies, and why the request passed.
func ExampleFromContext() {
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		log.Fatal(err)
	}
	limited := p.MiddlewareWith(hotparam.Options[hotparam.Exchange]{InContext: true})
	service := limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if judged, ok := hotparam.FromContext(r.Context()); ok {
			fmt.Println(judged.Client, judged.Verdict.Reason)
		}
	}))
	service.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/topic?id=42", nil))
	// Output: 192.0.2.1 cold
}

// Run delivers counts and applies the hot set. It ends with its context, after the server.
func ExamplePipeline_Run() {
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: p.Middleware(http.NotFoundHandler())}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()

	if err := server.Shutdown(ctx); err != nil { // no more requests,
		log.Print(err)
	}
	cancel() // then no more counts
	fmt.Println(<-ended)
	// Output: <nil>
}
