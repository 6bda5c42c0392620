package hotparam_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// mustNew builds the pipeline of an example.
func mustNew(yaml string, cfg hotparam.Config) *hotparam.Pipeline {
	rules, err := hotparam.ParseRules("rules.yaml", []byte(yaml))
	if err != nil {
		log.Fatal(err)
	}
	cfg.Rules, cfg.Log = rules, slog.New(slog.DiscardHandler)
	p, err := hotparam.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	return p
}

// statusOf sends a request to a service and returns the status of the response.
func statusOf(service http.Handler, method, target string, header ...string) int {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	service.ServeHTTP(w, r)
	return w.Code
}

var page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "a page") })

// A topic goes viral: it is found and limited, and other topics are not.
func Example_viralTopic() {
	p := mustNew(`
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 50, window: 1s}       # hot at 50 requests within a second
    limit: {rate: 1/h, burst: 1}      # so low that this example denies at once
`, hotparam.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()

	service := p.Middleware(page)
	for statusOf(service, "GET", "/topic?id=4242") == http.StatusOK { // until it is hot
		time.Sleep(time.Millisecond)
	}
	fmt.Println(p.Stats().Hot[0].Key)
	fmt.Println("another topic:", statusOf(service, "GET", "/topic?id=7"))
	cancel()
	fmt.Println(<-ended)
	// Output:
	// topic?id=4242
	// another topic: 200
	// <nil>
}

// Three wrong passwords a minute for each account: a successful login gets its charge back.
func Example_loginAttempts() {
	p := mustNew(`
rules:
  - name: login
    match: {path: /login, methods: [POST]}
    params: [user]
    hot: {rate: 10}
    limit: {rate: 3/m, burst: 3, refund_status: [2xx]}
overrides:
  - {resource: login, action: limit, rate: 0.05, burst: 3}   # each account, hot or not
`, hotparam.Config{})
	service := p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for range 5 {
		fmt.Print(statusOf(service, "POST", "/login?user=anna", "Password", "right"), " ")
	}
	for range 5 {
		fmt.Print(statusOf(service, "POST", "/login?user=anna", "Password", "guess"), " ")
	}
	fmt.Println(statusOf(service, "POST", "/login?user=bert", "Password", "right"))
	// Output: 200 200 200 200 200 401 401 401 429 429 200
}

// Windows hold for each user of the service instead of each address.
func Example_byUser() {
	p := mustNew(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}]
ip: {fixed: {limit: 2, window: 24h}}
`, hotparam.Config{})
	service := p.MiddlewareWith(hotparam.Options[hotparam.Exchange]{
		Client: func(x hotparam.Exchange) (string, error) {
			return x.R.Header.Get("X-User"), nil // use the user of a verified session
		},
	})(page)
	for _, user := range []string{"anna", "anna", "anna", "bert"} {
		fmt.Println(user, statusOf(service, "GET", "/", "X-User", user))
	}
	// Output:
	// anna 200
	// anna 200
	// anna 429
	// bert 200
}

// An export takes ten times as much from the client's window as a page.
func Example_cost() {
	p := mustNew(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}]
ip: {fixed: {limit: 12, window: 24h}}
`, hotparam.Config{})
	service := p.MiddlewareWith(hotparam.Options[hotparam.Exchange]{
		Cost: func(x hotparam.Exchange) int64 {
			if x.R.URL.Path == "/export" {
				return 10
			}
			return 1
		},
	})(page)
	for _, path := range []string{"/export", "/export", "/", "/", "/"} {
		fmt.Println(path, statusOf(service, "GET", path))
	}
	// Output:
	// /export 200
	// /export 429
	// / 200
	// / 200
	// / 429
}

// Crawlers that name themselves have a window of their own, and readers keep theirs.
func Example_crawlers() {
	p := mustNew(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}]
ip: {fixed: {limit: 100, window: 24h}}
classes:
  - name: crawler
    match: {header: User-Agent, pattern: "(?i)bot|crawl|spider"}
    ip: {fixed: {limit: 1, window: 24h}}
`, hotparam.Config{})
	service := p.Middleware(page)
	for range 2 {
		fmt.Println("crawler", statusOf(service, "GET", "/", "User-Agent", "ExampleBot/1.0"))
	}
	fmt.Println("reader", statusOf(service, "GET", "/", "User-Agent", "Mozilla/5.0"))
	// Output:
	// crawler 200
	// crawler 429
	// reader 200
}

// A limit in shadow mode denies nothing and counts the requests that it would deny.
func Example_shadow() {
	p := mustNew(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}]
ip: {fixed: {limit: 2, window: 24h, mode: shadow}}
`, hotparam.Config{})
	service := p.Middleware(page)
	for range 5 {
		fmt.Print(statusOf(service, "GET", "/"), " ")
	}
	fmt.Println(p.Stats().WouldDenyIP)
	// Output: 200 200 200 200 200 3
}

// An override for a network, for as long as it is needed.
func Example_blockedNetwork() {
	p := mustNew("rules: [{name: topic, params: [id], hot: {rate: 200}}]", hotparam.Config{})
	_, err := p.SetOverride(context.Background(), rule.Override{
		CIDR: "192.0.2.0/24", Action: rule.ActionBlock, Until: time.Now().Add(time.Hour), Reason: "scraper",
	})
	fmt.Println(err)
	fmt.Println(statusOf(p.Middleware(page), "GET", "/topic?id=7")) // httptest's client is 192.0.2.1
	// Output:
	// <nil>
	// 429
}

// Events report changes, for a log or a chat.
func Example_events() {
	events := make(chan hotparam.Event, 10)
	p := mustNew("rules: [{name: topic, params: [id], hot: {rate: 200}}]",
		hotparam.Config{OnEvent: func(e hotparam.Event) { events <- e }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	if _, err := p.SetOverride(ctx, rule.Override{Key: "topic?id=42", Action: rule.ActionBlock}); err != nil {
		log.Fatal(err)
	}
	e := <-events
	fmt.Println(e.Kind, e.Override.Key, e.Override.Action)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// override topic?id=42 block
	// <nil>
}

// A stream holds a slot until it ends: one at a time for each client.
func ExamplePipeline_Begin() {
	p := mustNew(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}]
ip: {in_flight: {limit: 1}}
`, hotparam.Config{})
	open := func() *hotparam.Decision {
		d, err := p.Begin(context.Background(), hotparam.Request{
			Method: "GET", Target: "/events", Client: hottype.ParseClient("192.0.2.1")})
		if err != nil {
			log.Fatal(err)
		}
		return d
	}
	first, second := open(), open()
	fmt.Println(first.Allowed, second.Allowed, second.Reason)
	first.Done()
	fmt.Println(open().Allowed)
	// Output:
	// true false ip_in_flight
	// true
}

// The key of a request is in its body, which rules do not read. The handler asks for a decision when it has parsed the
// body.
func Example_keyInBody() {
	p := mustNew(`
rules: [{name: rpc, match: {path: /rpc}, params: [topic], hot: {rate: 200}, limit: {rate: 100}}]
overrides: [{key: "rpc?topic=42", action: block}]
`, hotparam.Config{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		topic, _ := io.ReadAll(r.Body)
		v, err := p.Decide(r.Context(), hotparam.Request{
			Method: r.Method, Target: "/rpc?topic=" + url.QueryEscape(string(topic)), Header: r.Header})
		if err != nil || !v.Allowed {
			http.Error(w, "later", http.StatusTooManyRequests)
		}
	})
	for _, topic := range []string{"42", "7"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/rpc", strings.NewReader(topic)))
		fmt.Println(topic, w.Code)
	}
	// Output:
	// 42 429
	// 7 200
}

// A topic is answered from memory, so its handler runs once.
func Example_cache() {
	p := mustNew(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, cache: {ttl: 1m}}]
overrides: [{key: "topic?id=42", action: cache}]
`, hotparam.Config{})
	runs := 0
	service := p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		fmt.Fprint(w, "all about a topic")
	}))
	for range 3 {
		statusOf(service, "GET", "/topic?id=42")
	}
	fmt.Println(runs, "run,", p.Stats().Cache.Hits, "hits")
	fmt.Println(p.Purge("topic?id=42"), "answer was forgotten")
	// Output:
	// 1 run, 2 hits
	// 1 answer was forgotten
}

// A proxy of one's own: the upstream receives the request that is judged.
func Example_reverseProxy() {
	upstream := httptest.NewServer(page)
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		log.Fatal(err)
	}
	p := mustNew(`
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}]
overrides: [{key: "topic?id=42", action: block}]
`, hotparam.Config{})
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	service := p.MiddlewareWith(hotparam.Options[hotparam.Exchange]{Forwards: true})(proxy)
	fmt.Println(statusOf(service, "GET", "/topic?id=42"), statusOf(service, "GET", "/topic?id=7"))
	// Output: 429 200
}

// Many processes share hot keys, overrides and limits by Redis.
func Example_shared() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	p, err := hotparam.New(hotparam.Config{Shared: shared.Config{Redis: rdb, StatsD: "127.0.0.1:8127"}})
	fmt.Println(p != nil, err) // New needs no running server
	// Output: true <nil>
}

// A service is ready while its pipeline knows the hot set.
func ExampleHealth_Blind() {
	p := mustNew("rules: [{name: topic, params: [id], hot: {rate: 200}}]", hotparam.Config{})
	ready := func(w http.ResponseWriter, _ *http.Request) {
		if h := p.Stats().Health; !h.Running || h.Blind() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	fmt.Println("before Run:", statusOf(http.HandlerFunc(ready), "GET", "/readyz"))
	// Output: before Run: 503
}

// Values that must not be seen are hashed before they become keys.
func ExampleWithHashSecret() {
	rules, err := hotparam.ParseRules("rules.yaml", []byte(`
rules: [{name: mail, match: {path: /mail}, params: [{name: to, redact: hash}], hot: {rate: 20}, limit: {rate: 10}}]
`), hotparam.WithHashSecret("the same in all processes"))
	fmt.Println(rules != nil, err)
	// Output: true <nil>
}

// A service can test its limits in this way without waiting: time in the bubble passes when all goroutines wait.
func TestViralTopic_OnAVirtualClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustNew("rules: [{name: topic, params: [id], hot: {rate: 20}, limit: {rate: 1}}]", hotparam.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		service := p.Middleware(page)
		passed := 0
		for i := range 600 { // 100 requests a second for six seconds
			if statusOf(service, "GET", "/topic?id=42") == http.StatusOK && i >= 500 {
				passed++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if passed > 2 {
			t.Errorf("%d requests of a hot topic passed in its last second", passed)
		}
		if code := statusOf(service, "GET", "/topic?id=7"); code != http.StatusOK {
			t.Errorf("another topic: %d", code)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
