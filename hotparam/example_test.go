package hotparam_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/limit"
)

var rulesYAML = []byte(`
rules:
  - name: topic
    match: {path: "/topic"}
    params: [id]
    hot:   {rate: 200, window: 5s}
    limit: {algorithm: token_bucket, rate: 100, burst: 200}
`)

// A service protects itself, with no other server.
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

	topic := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "all about topic %s", r.FormValue("id")) }
	service := httptest.NewServer(p.Middleware(http.HandlerFunc(topic)))
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

// Rules may be Go values: a topic is hot from 200 requests a second on, and is held to
// 100 then; no client has more than 50.
func ExampleNewRules() {
	rules, err := hotparam.NewRules(hotparam.RuleSet{
		ParseAs: "strict",
		Rules: []hotparam.Rule{{
			Name: "topic", Path: "/topic", Params: []string{"id"},
			Hot: hotparam.AtRate(200), Limit: limit.PerSecond(100),
		}},
		IP: hotparam.IPLimits{Fixed: hotparam.IPWindow{Limit: 50, Window: time.Second}},
	})
	fmt.Println(rules.Namespace(), err)

	_, err = hotparam.NewRules(
		hotparam.RuleSet{Rules: []hotparam.Rule{{Name: "topic", Params: []string{"id"}, Hot: hotparam.AtRate(-1)}}})
	fmt.Println(err)
	// Output:
	// default <nil>
	// hotparam: rules: RuleSet: Rules[0].Hot.Rate: "-1" is no rate; write requests per second (100, 0.5), or 30/m, 24/h, 7/d, 10/3s
}

// Many instances of a service share hot keys and limits by Redis; aggregators
// hear what each of them counts.
func ExampleNew_together() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	p, err := hotparam.New(hotparam.Config{Redis: rdb, StatsD: "127.0.0.1:8127"})
	fmt.Println(p != nil, err)
	// Output: true <nil>
}

// What does not come by HTTP is judged by its description.
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
