package hotparamgrpc_test

import (
	"log"
	"net/url"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	hotparamgrpc "github.com/hotparam/pipeline/adapters/grpc"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/rule"
)

// The topics of a service, by the field of the request that names the topic.
func Example() {
	rules, err := hotparam.NewRules(rule.Set{Rules: []rule.Rule{{
		Name: "topic", Match: rule.Match{Path: "/grpc.testing.TestService/UnaryCall"}, Params: rule.Params("id"),
		Hot: rule.Hot{Rate: 200},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules}) // also run p.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	o := hotparamgrpc.Options{Query: func(c hotparamgrpc.Call) url.Values {
		if m, ok := c.Message.(*testpb.SimpleRequest); ok {
			return url.Values{"id": {string(m.GetPayload().GetBody())}}
		}
		return nil
	}}
	s := grpc.NewServer(
		grpc.ChainUnaryInterceptor(hotparamgrpc.Unary(p, o)),
		grpc.ChainStreamInterceptor(hotparamgrpc.Stream(p, o)),
	)
	s.Stop() // in place of s.Serve(listener)
	// Output:
}
