// Package size has minimal services that show the cost of a limiter for a build: net/http alone, and with each limiter.
//
//	for p in alone hotparam httprate sentinel redisrate; do
//	  GOCACHE=$(mktemp -d) bash -c "time go build -o /tmp/size-$p ./size/$p"; ls -l /tmp/size-$p
//	done
package size
