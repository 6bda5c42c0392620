// Gateways measures the time that asking the limiter adds to a request through a gateway: each gateway with its file of
// deploy/, beside the same gateway with the question left out, and Envoy also beside envoyproxy/ratelimit.
//
//	(cd .. && go build -o bin/ ./cmd/limiter-sidecar)
//	GOBIN=$PWD/../bin go install github.com/envoyproxy/ratelimit/src/service_cmd@latest
//	go run ./gateways [-rounds 5] [-for 4s] [-rate 500] [-connections 16] [-envoy PATH]
//	(cd .. && go build -o bin/ ./cmd/hotparam) && go run ./gateways -fast [-for 2s] [-connections 32]
//
// Requests are for 10,000 values that are not limited, at a fixed rate. Their time counts from the moment at which they
// were due. A gateway that is not installed is left out. With -fast, nginx and HAProxy with one worker answer as fast
// as they can: deciding themselves, alone, asking about each request, and nginx with limit_req and with proxy_cache.
// Everything runs on this machine.
package main
