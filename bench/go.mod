module github.com/hotparam/pipeline/bench

go 1.26.0

require github.com/hotparam/pipeline v0.0.0

require (
	github.com/OneOfOne/xxhash v1.2.8 // indirect
	github.com/alibaba/sentinel-golang v1.0.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-redis/redis_rate/v10 v10.0.1 // indirect
	github.com/keilerkonzept/topk v1.1.4 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/redis/rueidis v1.0.76 // indirect
	github.com/redis/rueidis/rueidislimiter v1.0.76 // indirect
	github.com/throttled/throttled/v2 v2.15.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/hotparam/pipeline => ../
