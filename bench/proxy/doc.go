// Proxy compares reverse proxies: the limiter sidecar beside a bare httputil.ReverseProxy with a buffer pool, and nginx
// with limit_req, each in a process of its own before the same upstream.
//
//	(cd .. && go build -o bin/ ./cmd/limiter-sidecar)
//	go run ./proxy [-rounds 5] [-for 2s] [-connections 32] [-ours ../bin/limiter-sidecar] [-nginx nginx]
//
// "cold keys" are requests for 10,000 values that are not limited. "refusals" are requests for one value far over its
// limit. An upstream answers each with 1 KiB.
package main
