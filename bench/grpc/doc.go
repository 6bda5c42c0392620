// Grpc compares rate limit services for gateways, over gRPC and HTTP: the limiter sidecar beside envoyproxy/ratelimit,
// each in a process of its own with the same file of limits and a Redis of its own. This process calls them over
// loopback.
//
//	(cd .. && go build -o bin/ ./cmd/limiter-sidecar)
//	GOBIN=$PWD/../bin go install github.com/envoyproxy/ratelimit/src/service_cmd@latest
//	go run ./grpc [-rounds 5] [-for 2s] [-callers 1,16,64] [-ours ../bin/limiter-sidecar] [-peer ../bin/service_cmd]
//
// A call has one descriptor: "allow" has 10,000 values of a key, below their limits, "deny" has 100 values of another
// key, far over theirs. "rules" calls hotparam for values that no file limits, so that the rules decide and no key is
// hot. The peer has its local cache of refusals on. Over gRPC callers share 4 connections; over HTTP each has one of
// its own, and calls /check of hotparam and /json of the peer.
package main
