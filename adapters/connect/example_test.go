package hotparamconnect_test

import (
	"context"
	"log"
	"net/http"
	"net/url"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	hotparamconnect "github.com/hotparam/pipeline/adapters/connect"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/rule"
)

// The topics of a service, by the field of the request that names the topic.
func Example() {
	rules, err := hotparam.NewRules(rule.Set{Rules: []rule.Rule{{
		Name: "topic", Match: rule.Match{Path: "/shop.v1.Topics/Get"}, Params: rule.Params("id"),
		Hot: rule.Hot{Rate: 200},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules}) // also run p.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	limited := hotparamconnect.New(p, hotparamconnect.Options{Query: func(c hotparamconnect.Call) url.Values {
		if m, ok := c.Message.(*wrapperspb.StringValue); ok {
			return url.Values{"id": {m.GetValue()}}
		}
		return nil
	}})
	mux := http.NewServeMux() // a generated handler takes the same option
	mux.Handle("/shop.v1.Topics/Get", connect.NewUnaryHandler("/shop.v1.Topics/Get",
		func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue],
			error) {
			return connect.NewResponse(r.Msg), nil
		}, connect.WithInterceptors(limited)))
	// Output:
}
