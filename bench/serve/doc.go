// Serve measures answers from the response cache: hotparam serve beside nginx with proxy_cache and proxy_cache_lock,
// each in a process of its own before the same upstream.
//
//	(cd .. && go build -o bin/ ./cmd/hotparam)
//	go run ./serve [-rounds 5] [-for 4s] [-connections 32] [-ours ../bin/hotparam] [-nginx nginx]
//
// "hits" are requests for one hot topic, as fast as they are answered. "a viral topic" is 3,000 requests a second for
// one topic whose limit is 100 a second, beside 200 a second for others, from the moment at which the topic is still
// unknown. An upstream answers each with 1 KiB after 10 ms, and counts its requests. A handler of net/http that only
// writes 1 KiB shows the cost of the server of Go's library without anything of ours.
package main
